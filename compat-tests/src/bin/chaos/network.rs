//! The run's own network: a namespace for each broker and one for the clients, each with one
//! device whose other end is this process, which passes packets on as the rules say.
//!
//! Nothing of it has a name that another run could see, and all of it goes when the last process
//! in it ends, however it ends.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::rules::{CLIENTS, Host, Rules, Verdict, address};
use crate::schedule::Dice;

/// Largest packet; also what a device's read may bring.
const MTU: i32 = 16_000;
/// Packets that are on their way late; more are lost, as in any queue.
const LATE_PACKETS: usize = 20_000;

/// The network, and its state.
#[derive(Debug)]
pub struct Network {
    rules: Mutex<Rules>,
    namespaces: BTreeMap<Host, File>,
}

impl Network {
    /// Makes it, and moves this process into the clients' namespace. No other thread may run yet:
    /// it would stay outside.
    ///
    /// # Errors
    /// A sentence for whoever has no right to, or whose kernel lacks something.
    pub fn new(brokers: &[Host], seed: u64) -> Result<Arc<Network>, String> {
        let (mut namespaces, mut devices) = (BTreeMap::new(), BTreeMap::new());
        for host in brokers.iter().copied() {
            let made = thread::spawn(move || enter_new(host)).join();
            let (namespace, device) = made.map_err(|_| "a thread ended".to_owned())??;
            namespaces.insert(host, namespace);
            devices.insert(host, device);
        }
        let (namespace, device) = enter_new(CLIENTS)?;
        namespaces.insert(CLIENTS, namespace);
        devices.insert(CLIENTS, device);
        let network = Arc::new(Network { rules: Mutex::default(), namespaces });
        network.pass_packets(devices, seed);
        Ok(network)
    }

    /// A host's namespace, for `setns`.
    pub fn namespace(&self, host: Host) -> Option<i32> {
        self.namespaces.get(&host).map(AsRawFd::as_raw_fd)
    }

    /// Makes the network anew: all is well, but for what `change` does.
    pub fn set(&self, change: impl FnOnce(&mut Rules)) {
        let mut rules = Rules::default();
        change(&mut rules);
        *self.rules.lock() = rules;
    }

    fn pass_packets(self: &Arc<Network>, devices: BTreeMap<Host, File>, seed: u64) {
        let devices = Arc::new(devices);
        let (late, queue) = mpsc::sync_channel(LATE_PACKETS);
        let to = devices.clone();
        thread::spawn(move || deliver_late(&queue, &to));
        for from in devices.keys().copied().collect::<Vec<_>>() {
            let (network, devices, late) = (self.clone(), devices.clone(), late.clone());
            let dice = Dice::new(seed ^ u64::from(from));
            thread::spawn(move || network.pass_from(from, &devices, &late, dice));
        }
    }

    /// Until the device is gone, which is when the process ends.
    fn pass_from(
        &self,
        from: Host,
        devices: &BTreeMap<Host, File>,
        late: &mpsc::SyncSender<Late>,
        mut dice: Dice,
    ) {
        let Some(mut device) = devices.get(&from) else { return };
        let mut buffer = vec![0; MTU as usize];
        while let Ok(length) = device.read(&mut buffer) {
            let packet = &buffer[..length];
            let verdict = self.rules.lock().judge(from, packet, dice.roll());
            match verdict {
                Verdict::Lost => {}
                Verdict::Arrives(to, Duration::ZERO) => deliver(devices, to, packet),
                Verdict::Arrives(to, delay) => {
                    let due = Instant::now() + delay;
                    // A full queue loses packets, as any does.
                    let _ = late.try_send(Late { due, to, packet: packet.to_vec() });
                }
            }
        }
    }
}

struct Late {
    due: Instant,
    to: Host,
    packet: Vec<u8>,
}

/// All links are equally late at a time, so what comes first is due first.
fn deliver_late(queue: &mpsc::Receiver<Late>, devices: &BTreeMap<Host, File>) {
    for late in queue {
        thread::sleep(late.due.saturating_duration_since(Instant::now()));
        deliver(devices, late.to, &late.packet);
    }
}

fn deliver(devices: &BTreeMap<Host, File>, to: Host, packet: &[u8]) {
    if let Some(mut device) = devices.get(&to) {
        // What a device does not take is lost; TCP sends it again.
        let _ = device.write(packet);
    }
}

/// Puts this thread into a new namespace with one device, up and with its address.
fn enter_new(host: Host) -> Result<(File, File), String> {
    // SAFETY: unshare(2) takes no pointers.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        let error = io::Error::last_os_error();
        return Err(format!(
            "no network namespace can be made ({error}): that needs root; --no-namespaces runs \
             the faults that need no network of their own, on loopback"
        ));
    }
    let namespace = File::open("/proc/thread-self/ns/net").map_err(|error| error.to_string())?;
    let device = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    let device = device.map_err(|error| {
        format!("/dev/net/tun cannot be opened ({error}): --no-namespaces runs without a network")
    })?;
    set_up(&device, host).map_err(|error| format!("the network's device: {error}"))?;
    Ok((namespace, device))
}

fn set_up(device: &File, host: Host) -> io::Result<()> {
    const NAME: &str = "chaos";
    let mut request = interface(NAME);
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    control(device, libc::TUNSETIFF, &request)?;
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let mut request = interface(NAME);
    request.ifr_ifru.ifru_addr = socket_address(address(host));
    control(&socket, libc::SIOCSIFADDR, &request)?;
    request.ifr_ifru.ifru_addr = socket_address(Ipv4Addr::new(255, 255, 255, 0));
    control(&socket, libc::SIOCSIFNETMASK, &request)?;
    request.ifr_ifru.ifru_mtu = MTU;
    control(&socket, libc::SIOCSIFMTU, &request)?;
    for name in [NAME, "lo"] {
        let mut request = interface(name);
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        control(&socket, libc::SIOCSIFFLAGS, &request)?;
    }
    Ok(())
}

fn interface(name: &str) -> libc::ifreq {
    // SAFETY: ifreq is plain data, for which zeros are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    // SAFETY: sockaddr is plain data, for which zeros are a value.
    let mut socket_address: libc::sockaddr = unsafe { std::mem::zeroed() };
    socket_address.sa_family = libc::AF_INET as libc::sa_family_t;
    // Behind two bytes of a port.
    for (to, from) in socket_address.sa_data[2..].iter_mut().zip(address.octets()) {
        *to = from as libc::c_char;
    }
    socket_address
}

fn control(file: &impl AsRawFd, what: libc::Ioctl, request: &libc::ifreq) -> io::Result<()> {
    // SAFETY: these calls read one ifreq, which `request` is.
    match unsafe { libc::ioctl(file.as_raw_fd(), what, std::ptr::from_ref(request)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
