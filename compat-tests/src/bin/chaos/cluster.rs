//! Three brokers: their processes, their addresses, and what is done to them with signals.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use compat_tests::BrokerOptions;
pub use compat_tests::cluster::IDS;
use compat_tests::cluster::{ALLOWED_ERRORS, Addresses};

use crate::network::Network;
use crate::rules::{Host, address};

/// How long a broker may take to end after SIGTERM.
const ENDS_WITHIN: Duration = Duration::from_secs(30);
/// How many lines of a broker's log are shown when it has ended by itself.
const LAST_LINES: usize = 15;

/// The brokers.
#[derive(Debug)]
pub struct Cluster {
    nodes: BTreeMap<i32, Node>,
    network: Option<Arc<Network>>,
}

#[derive(Debug)]
struct Node {
    options: BrokerOptions,
    dir: PathBuf,
    child: Option<Child>,
}

/// How the brokers of a run are made.
#[derive(Debug)]
pub struct Plan {
    /// The program.
    pub binary: PathBuf,
    /// Where everything is written to.
    pub dir: PathBuf,
    /// Further configuration.
    pub overrides: Vec<(String, String)>,
    /// The environment of the brokers.
    pub environment: BTreeMap<i32, Vec<(String, String)>>,
}

impl Cluster {
    /// Three brokers that are not started yet, and where clients find them.
    pub fn new(
        plan: &Plan,
        network: Option<Arc<Network>>,
    ) -> io::Result<(Cluster, BTreeMap<i32, SocketAddr>)> {
        let addresses = match &network {
            Some(_) => Addresses { clients: in_network(9092), peers: in_network(9093) },
            None => Addresses::on_loopback()?,
        };
        let mut nodes = BTreeMap::new();
        for id in IDS {
            let dir = plan.dir.join(format!("broker-{id}"));
            let mut options = addresses
                .highwater(id, &plan.binary, &dir)
                .with("offsets.topic.num.partitions", "3")
                .with("group.initial.rebalance.delay.ms", "0")
                .with("group.consumer.session.timeout.ms", "6000")
                .with("group.consumer.heartbeat.interval.ms", "500");
            for (key, value) in &plan.overrides {
                options = options.with(key, value);
            }
            for (name, value) in plan.environment.get(&id).into_iter().flatten() {
                options = options.with_environment(name, value);
            }
            nodes.insert(id, Node { options, dir, child: None });
        }
        Ok((Cluster { nodes, network }, addresses.clients))
    }

    /// Starts a broker, without waiting for it. From the main thread only: a broker dies with the
    /// thread that has started it.
    pub fn start(&mut self, id: i32) -> io::Result<()> {
        let Some(node) = self.nodes.get_mut(&id) else { return Ok(()) };
        let mut command = node.options.command()?;
        let host = Host::try_from(id).unwrap_or_default();
        let namespace = self.network.as_ref().and_then(|network| network.namespace(host));
        into_namespace(&mut command, namespace);
        // Ctrl-C is for this process, which ends the brokers in its own way.
        command.process_group(0);
        node.child = Some(command.spawn()?);
        Ok(())
    }

    /// Starts all that do not run.
    pub fn start_all(&mut self) -> io::Result<()> {
        let down = self.nodes.iter().filter(|(_, node)| node.child.is_none()).map(|(id, _)| *id);
        down.collect::<Vec<_>>().into_iter().try_for_each(|id| self.start(id))
    }

    /// kill -9 of some, at once.
    pub fn kill(&mut self, ids: &[i32]) {
        ids.iter().for_each(|id| self.signal(*id, libc::SIGKILL));
        for id in ids {
            if let Some(mut child) = self.nodes.get_mut(id).and_then(|node| node.child.take()) {
                // A killed child can be waited for; if not, there is nothing left to do.
                let _ = child.wait();
            }
        }
    }

    /// SIGSTOP.
    pub fn pause(&self, id: i32) {
        self.signal(id, libc::SIGSTOP);
    }

    /// SIGCONT.
    pub fn resume(&self, id: i32) {
        self.signal(id, libc::SIGCONT);
    }

    /// SIGTERM, and waits until it has ended.
    ///
    /// # Errors
    /// It does not end, or ends with an error.
    pub fn terminate(&mut self, id: i32) -> Result<(), String> {
        self.signal(id, libc::SIGTERM);
        let Some(mut child) = self.nodes.get_mut(&id).and_then(|node| node.child.take()) else {
            return Ok(());
        };
        let deadline = Instant::now() + ENDS_WITHIN;
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("broker {id} ended with {status}")),
                _ if Instant::now() > deadline => {
                    let _ = child.kill().and_then(|()| child.wait());
                    return Err(format!("broker {id} does not end {ENDS_WITHIN:?} after SIGTERM"));
                }
                _ => thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// The process of a broker that runs.
    pub fn pid(&self, id: i32) -> Option<u32> {
        Some(self.nodes.get(&id)?.child.as_ref()?.id())
    }

    fn signal(&self, id: i32, signal: i32) {
        if let Some(pid) = self.pid(id) {
            // SAFETY: kill(2) takes no pointers; the process is our child, not yet waited for.
            unsafe { libc::kill(pid as libc::pid_t, signal) };
        }
    }

    /// Brokers that have ended by themselves, each with the end of its log. They count as down.
    pub fn ended(&mut self) -> Vec<String> {
        let mut ended = Vec::new();
        for (id, node) in &mut self.nodes {
            let status = node.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            if let Some(status) = status {
                node.child = None;
                let log = node.log();
                let lines: Vec<&str> = log.lines().collect();
                let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n    ");
                ended.push(format!("broker {id} ended by itself, with {status}:\n    {last}"));
            }
        }
        ended
    }

    /// Lines of the brokers' logs at which a person must look.
    pub fn errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        for (id, node) in &self.nodes {
            let log = node.log();
            let bad = |line: &&str| line.contains(" ERROR ") || line.contains("panicked at");
            let expected = |line: &&str| ALLOWED_ERRORS.iter().any(|text| line.contains(text));
            let lines = log.lines().filter(bad).filter(|line| !expected(line));
            errors.extend(lines.map(|line| format!("broker {id}: {line}")));
        }
        errors
    }
}

impl Node {
    fn log(&self) -> String {
        fs::read_to_string(self.dir.join("broker.log")).unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill(&IDS);
    }
}

fn in_network(port: u16) -> BTreeMap<i32, SocketAddr> {
    let host = |id| Host::try_from(id).unwrap_or_default();
    IDS.into_iter().map(|id| (id, SocketAddr::from((address(host(id)), port)))).collect()
}

/// The process runs in that namespace, and dies with the thread that starts it.
fn into_namespace(command: &mut Command, namespace: Option<i32>) {
    let enter = move || {
        // SAFETY: prctl(2) and setns(2) take no pointers here, and may be called after a fork.
        let entered = unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0
                && namespace.is_none_or(|fd| libc::setns(fd, libc::CLONE_NEWNET) == 0)
        };
        if entered { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(enter) };
}

/// `highwater` as `HIGHWATER_BIN` names it, or beside this program.
pub fn binary() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("HIGHWATER_BIN") {
        return Ok(path.into());
    }
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let binary = this.with_file_name("highwater");
    match Path::new(&binary).exists() {
        true => Ok(binary),
        false => Err(format!("{} is not there: build it first", binary.display())),
    }
}
