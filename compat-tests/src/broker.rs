//! A broker in a process of its own: started on free ports, watched through `/proc`, stopped with
//! a signal. With `BROKER=kafka` in the environment it is Apache Kafka, the referee.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Connection;

/// How long a broker may take to start.
const READY_WITHIN: Duration = Duration::from_secs(90);
/// How long a JVM may take to, on a machine that compiles at the same time.
const JVM_READY_WITHIN: Duration = Duration::from_secs(300);
/// How long it may take to stop after SIGTERM.
const STOPPED_WITHIN: Duration = Duration::from_secs(30);
/// How often a process is looked at.
const POLL_EVERY: Duration = Duration::from_millis(1);

/// How a broker is started.
#[derive(Debug, Clone)]
pub struct BrokerOptions {
    binary: PathBuf,
    dir: PathBuf,
    overrides: Vec<String>,
    environment: Vec<(String, String)>,
    allowed_errors: Vec<String>,
    port: u16,
    http_port: u16,
    kafka: bool,
}

impl BrokerOptions {
    /// The binary, and the directory that holds `data` and `broker.log`.
    ///
    /// # Panics
    /// When there is no free port.
    #[must_use]
    pub fn new(binary: impl Into<PathBuf>, dir: impl Into<PathBuf>) -> BrokerOptions {
        let [port, http_port] = free_ports().expect("there are free ports");
        let (binary, dir) = (binary.into(), dir.into());
        let (overrides, environment, allowed_errors) = (Vec::new(), Vec::new(), Vec::new());
        let kafka = is_kafka();
        BrokerOptions {
            binary,
            dir,
            overrides,
            environment,
            allowed_errors,
            port,
            http_port,
            kafka,
        }
    }

    /// Apache Kafka or Highwater, whatever the environment says.
    #[must_use]
    pub fn kafka(mut self, kafka: bool) -> BrokerOptions {
        self.kafka = kafka;
        self
    }

    /// Where clients connect, when it shall not be a free port.
    #[must_use]
    pub fn client_port(mut self, port: u16) -> BrokerOptions {
        self.port = port;
        self
    }

    /// Where the controller of Apache Kafka listens, when it shall not be a free port.
    #[must_use]
    pub fn controller_port(mut self, port: u16) -> BrokerOptions {
        self.http_port = port;
        self
    }

    /// Adds `key=value`.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> BrokerOptions {
        self.overrides.push(format!("{key}={value}"));
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn with_environment(mut self, name: &str, value: &str) -> BrokerOptions {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// ERROR lines of the log that contain this are expected.
    #[must_use]
    pub fn allow_error(mut self, text: &str) -> BrokerOptions {
        self.allowed_errors.push(text.to_owned());
        self
    }

    /// The port that clients connect to.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port of metrics and health.
    #[must_use]
    pub fn http_port(&self) -> u16 {
        self.http_port
    }

    /// Where its data lies.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    fn has(&self, key: &str) -> bool {
        let start = format!("{key}=");
        self.overrides.iter().any(|line| line.starts_with(&start))
    }

    /// The command that starts Highwater, with its output into `broker.log`.
    pub fn command(&self) -> io::Result<Command> {
        fs::create_dir_all(&self.dir)?;
        let mut command = Command::new(&self.binary);
        command.arg("serve");
        let mut set = |key: &str, value: String| {
            if !self.has(key) {
                command.arg("--override").arg(format!("{key}={value}"));
            }
        };
        set("listeners", format!("PLAINTEXT://127.0.0.1:{}", self.port));
        set("highwater.http.listener", format!("127.0.0.1:{}", self.http_port));
        set("log.dirs", self.data_dir().display().to_string());
        for line in &self.overrides {
            command.arg("--override").arg(line);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let log = open_log(&self.log_path())?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(command)
    }

    fn log_path(&self) -> PathBuf {
        self.dir.join("broker.log")
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }
}

/// A running broker; killed when dropped.
#[derive(Debug)]
pub struct Broker {
    options: BrokerOptions,
    process: Process,
}

#[derive(Debug)]
enum Process {
    Child(Child),
    /// Apache Kafka, started by the script that also formats its directory.
    Kafka(u32),
}

/// Whether the tests run against Apache Kafka.
#[must_use]
pub fn is_kafka() -> bool {
    std::env::var("BROKER").is_ok_and(|broker| broker == "kafka")
}

fn explained(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what} cannot be started: {error}"))
}

impl Broker {
    /// Starts it and waits until it takes connections.
    ///
    /// # Panics
    /// When it does not start: the panic shows its log.
    #[must_use]
    pub fn start(options: BrokerOptions) -> Broker {
        Broker::try_start(options).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same, for a program that has to end with a sentence.
    ///
    /// # Errors
    /// That it did not start, and what it has logged.
    pub fn try_start(options: BrokerOptions) -> io::Result<Broker> {
        let mut broker = Broker::spawn(options)?;
        broker.wait_until_ready()?;
        Ok(broker)
    }

    /// Starts the process, and does not wait: one of several that need each other.
    ///
    /// # Errors
    /// There is no such program.
    pub fn spawn(options: BrokerOptions) -> io::Result<Broker> {
        let process = if options.kafka {
            let pid = start_kafka(&options).map_err(|error| explained("Apache Kafka", &error))?;
            Process::Kafka(pid)
        } else {
            let mut command = options.command()?;
            let binary = options.binary.display().to_string();
            Process::Child(command.spawn().map_err(|error| explained(&binary, &error))?)
        };
        Ok(Broker { options, process })
    }

    /// Waits until it takes connections.
    ///
    /// # Errors
    /// It has ended, or takes too long; and what it has logged.
    pub fn wait_until_ready(&mut self) -> io::Result<()> {
        let within = if self.options.kafka { JVM_READY_WITHIN } else { READY_WITHIN };
        let deadline = Instant::now() + within;
        while TcpStream::connect(self.address()).is_err() {
            if !self.is_running() {
                let log = self.log();
                return Err(io::Error::other(format!("the broker did not start: {}", log.trim())));
            }
            if Instant::now() > deadline {
                let log = self.log();
                return Err(io::Error::other(format!(
                    "the broker does not listen: {}",
                    log.trim()
                )));
            }
            thread::sleep(POLL_EVERY);
        }
        Ok(())
    }

    /// Whether the process is there.
    pub fn is_running(&mut self) -> bool {
        match &mut self.process {
            Process::Child(child) => matches!(child.try_wait(), Ok(None)),
            // Not our child: whoever reaps it may take a while.
            Process::Kafka(pid) => fs::read_to_string(format!("/proc/{pid}/stat"))
                .is_ok_and(|stat| !stat.contains(") Z ")),
        }
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.options.address()
    }

    /// How it was started.
    #[must_use]
    pub fn options(&self) -> &BrokerOptions {
        &self.options
    }

    /// A new connection.
    ///
    /// # Panics
    /// When it is refused.
    #[must_use]
    pub fn connect(&self) -> Connection {
        match Connection::open(self.address()) {
            Ok(connection) => connection,
            Err(error) => panic!("no connection: {error}\n{}", self.log()),
        }
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.options.log_path()).unwrap_or_default()
    }

    /// The process's id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        match &self.process {
            Process::Child(child) => child.id(),
            Process::Kafka(pid) => *pid,
        }
    }

    /// Signals it, and does not wait.
    pub fn signal(&self, signal: i32) {
        // SAFETY: kill(2) takes no pointers; the process is our child and has not been waited for.
        unsafe { libc::kill(self.pid() as libc::pid_t, signal) };
    }

    /// kill -9, and waits until it is gone.
    ///
    /// # Panics
    /// When it cannot be waited for.
    pub fn kill(mut self) -> BrokerOptions {
        self.stop();
        self.options.clone()
    }

    fn stop(&mut self) {
        self.signal(libc::SIGKILL);
        match &mut self.process {
            Process::Child(child) => {
                child.wait().expect("a killed child can be waited for");
            }
            Process::Kafka(_) => {
                while self.is_running() {
                    thread::sleep(POLL_EVERY);
                }
            }
        }
    }

    /// SIGTERM; returns how it exited.
    ///
    /// # Panics
    /// When it does not exit in time.
    #[must_use]
    pub fn terminate(mut self) -> ExitStatus {
        self.signal(libc::SIGTERM);
        self.wait()
    }

    /// Waits until it exits by itself.
    ///
    /// # Panics
    /// When it does not exit in time.
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + STOPPED_WITHIN;
        loop {
            if !self.is_running() {
                return match &mut self.process {
                    Process::Child(child) => child.wait().expect("a child can be waited for"),
                    Process::Kafka(_) => ExitStatus::default(),
                };
            }
            assert!(Instant::now() < deadline, "the broker does not stop:\n{}", self.log());
            thread::sleep(POLL_EVERY);
        }
    }

    /// kill -9 and start on the same ports and directory.
    #[must_use]
    pub fn restart_after_kill(self) -> Broker {
        Broker::start(self.kill())
    }

    /// Resident memory now.
    #[must_use]
    pub fn rss_bytes(&self) -> u64 {
        self.status_kib("VmRSS:") * 1024
    }

    /// The most resident memory that it ever had.
    #[must_use]
    pub fn peak_rss_bytes(&self) -> u64 {
        self.status_kib("VmHWM:") * 1024
    }

    fn status_kib(&self, key: &str) -> u64 {
        let status = self.proc_file("status");
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse().unwrap_or_default()
    }

    /// User and system time that it has used.
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        let stat = self.proc_file("stat");
        // Fields 14 and 15, counted behind the command's name, which may hold anything.
        let fields = stat.rsplit(") ").next().unwrap_or_default();
        let ticks: u64 =
            fields.split(' ').skip(11).take(2).filter_map(|f| f.parse::<u64>().ok()).sum();
        // SAFETY: sysconf(3) takes no pointers.
        let ticks_per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        Duration::from_secs_f64(ticks as f64 / ticks_per_second.max(1) as f64)
    }

    /// Bytes that it has caused to be written to storage.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        let io = self.proc_file("io");
        let line = io.lines().find_map(|line| line.strip_prefix("write_bytes:"));
        line.and_then(|value| value.trim().parse().ok()).unwrap_or_default()
    }

    fn proc_file(&self, name: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{name}", self.pid())).unwrap_or_default()
    }

    /// The body of a GET on its HTTP port, and the status line.
    ///
    /// # Errors
    /// Nobody answers.
    pub fn http_get(&self, path: &str) -> io::Result<(String, String)> {
        self.http("GET", path, "")
    }

    /// The body of the answer to a POST of JSON on its HTTP port, and the status line.
    ///
    /// # Errors
    /// Nobody answers.
    pub fn http_post(&self, path: &str, json: &str) -> io::Result<(String, String)> {
        self.http("POST", path, json)
    }

    fn http(&self, method: &str, path: &str, json: &str) -> io::Result<(String, String)> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.options.http_port));
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(crate::client::READ_TIMEOUT))?;
        let length = json.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n{json}"
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        Ok((head.lines().next().unwrap_or_default().to_owned(), body.to_owned()))
    }

    /// The sum of a metric over all its labels; `None` when there is no such metric.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<f64> {
        let (_, body) = self.http_get("/metrics").ok()?;
        let values = body.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            rest.starts_with([' ', '{']).then(|| rest.rsplit(' ').next()?.parse::<f64>().ok())?
        });
        values.fold(None, |sum, value| Some(sum.unwrap_or_default() + value))
    }

    /// ERROR lines of its log that were not allowed; none for Apache Kafka.
    #[must_use]
    pub fn unexpected_errors(&self) -> Vec<String> {
        if self.options.kafka {
            return Vec::new();
        }
        let allowed = &self.options.allowed_errors;
        self.log()
            .lines()
            .filter(|line| line.contains(" ERROR ") || line.contains("panicked at"))
            .filter(|line| !allowed.iter().any(|text| line.contains(text.as_str())))
            .map(ToOwned::to_owned)
            .collect()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if self.is_running() {
            self.stop();
        }
        // An ERROR line means that a person must look.
        if !thread::panicking() {
            let errors = self.unexpected_errors();
            assert!(errors.is_empty(), "the broker logged errors:\n{}", errors.join("\n"));
        }
    }
}

fn open_log(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Ports of this machine that nobody listens on.
///
/// A broker that is down has to find its port free when it comes back. So no port is given out
/// twice by a process, and none is of the range from which the kernel takes the ports of
/// connections that go out.
pub fn free_ports<const N: usize>() -> io::Result<[u16; N]> {
    let mut held = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = listen_on_unused_port()?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

fn listen_on_unused_port() -> io::Result<TcpListener> {
    const FIRST: u32 = 10_000;
    /// Linux hands out ports from 32,768 on.
    const COUNT: u32 = 22_000;
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Processes that run at a time begin at different places.
    let begin = process::id().wrapping_mul(7919);
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for _ in 0..COUNT {
        let at = begin.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let port = u16::try_from(FIRST + at).map_err(io::Error::other)?;
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn start_kafka(options: &BrokerOptions) -> io::Result<u32> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("kafka-reference/start.sh");
    let own = |line: &&String| line.starts_with("highwater.") || line.starts_with("log.dirs=");
    let properties: Vec<_> = options.overrides.iter().filter(|line| !own(line)).cloned().collect();
    let status = Command::new(script)
        .arg(&options.dir)
        .arg(options.port.to_string())
        .arg(options.http_port.to_string())
        .env("KAFKA_PROPERTIES", properties.join("\n"))
        .envs(options.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .status()?;
    if !status.success() {
        return Err(io::Error::other("kafka-reference/start.sh failed"));
    }
    fs::read_to_string(options.dir.join("broker.pid"))?.trim().parse().map_err(io::Error::other)
}
