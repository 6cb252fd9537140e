//! Starts brokers for the tests: one that most of them share, and others of their own for those
//! that stop, kill or starve it.

use std::process::{Command, Output};
use std::sync::OnceLock;

use compat_tests::{Broker, BrokerOptions, Connection};
use protocol::ErrorCode;
use tempfile::TempDir;

/// The binary under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_highwater");

/// A broker of a test's own, and its directory.
pub struct Scene {
    // Dropped before the directory that it writes to.
    pub broker: Broker,
    pub dir: TempDir,
}

impl Scene {
    /// A broker on an empty directory.
    pub fn start() -> Scene {
        Scene::start_with(|options| options)
    }

    /// The same, with options changed.
    pub fn start_with(change: impl FnOnce(BrokerOptions) -> BrokerOptions) -> Scene {
        let dir = temp_dir();
        let broker = Broker::start(change(BrokerOptions::new(BINARY, dir.path())));
        Scene { broker, dir }
    }

    /// kill -9, and starts on what it left.
    pub fn restart_after_kill(self) -> Scene {
        Scene { broker: self.broker.restart_after_kill(), dir: self.dir }
    }
}

/// Runs a command of the binary that asks a running broker.
pub fn command(broker: &Broker, name: &str, arguments: &[&str]) -> Output {
    let admin = format!("http://127.0.0.1:{}", broker.options().http_port());
    let mut command = Command::new(BINARY);
    command.arg(name).args(arguments).args(["--admin", &admin]);
    command.output().expect("the binary can be run")
}

pub fn temp_dir() -> TempDir {
    TempDir::new().expect("a temporary directory can be made")
}

static SHARED: OnceLock<Scene> = OnceLock::new();

/// The broker that tests share: each uses topics of its own name.
pub fn shared() -> &'static Broker {
    let scene = SHARED.get_or_init(|| {
        // A static is never dropped: the broker is stopped when the process exits.
        // SAFETY: `stop_shared` is a function without arguments that lives as long as the process.
        unsafe { libc::atexit(stop_shared) };
        Scene::start()
    });
    &scene.broker
}

extern "C" fn stop_shared() {
    let Some(scene) = SHARED.get() else { return };
    scene.broker.signal(libc::SIGKILL);
    let errors = scene.broker.unexpected_errors();
    let _ = std::fs::remove_dir_all(scene.dir.path());
    if !errors.is_empty() {
        eprintln!("the shared broker logged errors:\n{}", errors.join("\n"));
        // SAFETY: _exit(2) takes no pointers and does not return.
        unsafe { libc::_exit(1) };
    }
}

/// A connection to the shared broker.
pub fn connect() -> Connection {
    shared().connect()
}

/// An error code by its name.
pub fn error(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap_or_else(|| panic!("error code {code} is not known"))
}
