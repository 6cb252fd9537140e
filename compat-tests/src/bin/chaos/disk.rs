//! Slow disks: a control group whose processes may do only so many writes a second.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::schedule::Dice;

/// The control group that a broker is put into.
#[derive(Debug)]
pub struct Disk {
    /// Where the groups are mounted.
    mount: PathBuf,
    group: PathBuf,
    limit: Limit,
    /// The disk, as `major:minor`.
    device: String,
}

/// The file that holds the limit, which differs between the two kinds of control groups.
#[derive(Debug, Clone, Copy)]
enum Limit {
    Unified,
    Separate,
}

impl Limit {
    fn mount(self, at: &Path) -> bool {
        let mut command = Command::new("mount");
        match self {
            Limit::Unified => command.args(["-t", "cgroup2", "none"]),
            Limit::Separate => command.args(["-t", "cgroup", "-o", "blkio", "none"]),
        };
        command.arg(at).output().is_ok_and(|output| output.status.success())
    }

    fn file(self) -> &'static str {
        match self {
            Limit::Unified => "io.max",
            Limit::Separate => "blkio.throttle.write_iops_device",
        }
    }

    fn text(self, writes: Option<u64>) -> String {
        match (self, writes) {
            (Limit::Unified, Some(writes)) => format!("wiops={writes}"),
            (Limit::Unified, None) => "wiops=max".to_owned(),
            (Limit::Separate, writes) => writes.unwrap_or_default().to_string(),
        }
    }
}

impl Disk {
    /// A group without a limit.
    ///
    /// # Errors
    /// Why there is none.
    pub fn new(dir: &Path) -> Result<Disk, String> {
        let mount = dir.join("cgroup");
        let device = fs::create_dir_all(&mount).and_then(|()| fs::metadata(dir));
        let device = device.map_err(|error| error.to_string())?.dev();
        let device = format!("{}:{}", libc::major(device), libc::minor(device));
        for limit in [Limit::Unified, Limit::Separate] {
            if !limit.mount(&mount) {
                continue;
            }
            let group = mount.join(format!("chaos-{}", std::process::id()));
            let disk = Disk { mount: mount.clone(), group, limit, device: device.clone() };
            // A controller that is not there shows in the limit's file, which then is not either.
            let _ = fs::write(mount.join("cgroup.subtree_control"), "+io");
            let _ = fs::create_dir(&disk.group);
            if disk.reset().is_ok() {
                return Ok(disk);
            }
        }
        Err("no control group can limit this disk".to_owned())
    }

    /// From now on this process does few writes a second.
    pub fn slow_down(&self, pid: Option<u32>, dice: &mut Dice) -> Result<(), String> {
        let Some(pid) = pid else { return Ok(()) };
        self.write("cgroup.procs", &pid.to_string())?;
        self.limit(Some(5 + dice.below(60)))
    }

    /// As many as it likes.
    pub fn reset(&self) -> Result<(), String> {
        self.limit(None)
    }

    fn limit(&self, writes: Option<u64>) -> Result<(), String> {
        self.write(self.limit.file(), &format!("{} {}", self.device, self.limit.text(writes)))
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.group.join(file);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The brokers have ended by now. What cannot be removed does no harm.
        let _ = fs::remove_dir(&self.group);
        let _ = Command::new("umount").arg(&self.mount).output();
    }
}
