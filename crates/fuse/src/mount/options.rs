//! Mount options, as mount(8), fstab(5) and `-o` spell them.

use firnfs::vfs::AtimeMode;
use rustix::mount::MountFlags;

/// The parsed options of a mount. The default is that of mount(8): read-write, devices, set-id and execution on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MountOptions {
    /// `ro`
    pub read_only: bool,
    /// `allow_other`, `noallow_other`. The default is yes for root, whose mounts serve all users as other file systems do
    /// (permissions are always checked), and no for an ordinary user.
    pub allow_other: Option<bool>,
    /// `remount`: change the other options of an existing mount.
    pub remount: bool,
    /// `nodev`
    pub no_dev: bool,
    /// `nosuid`
    pub no_suid: bool,
    /// `noexec`
    pub no_exec: bool,
    /// `sync`: every write is durable before write(2) returns.
    pub synchronous: bool,
    /// `relatime` (default), `noatime`, `strictatime`. The daemon implements it; `AtimeMode` says how a read from the page
    /// cache counts.
    pub atime: AtimeMode,
}

/// Options for other programs (mount(8), systemd), and options that are always on.
const WITHOUT_EFFECT: &[&str] = &[
    "auto",
    "noauto",
    "nouser",
    "nofail",
    "_netdev",
    "async",
    "nodiratime",
    "diratime",
    "iversion",
    "noiversion",
    "lazytime",
    "nolazytime",
    "silent",
    "loud",
    "default_permissions",
    "acl",
    "user_xattr",
];

impl MountOptions {
    /// Applies one option; false if it is not one of those that all file systems share.
    #[must_use]
    pub fn apply(&mut self, word: &str) -> bool {
        match word {
            "remount" => self.remount = true,
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "allow_other" => self.allow_other = Some(true),
            "noallow_other" => self.allow_other = Some(false),
            "dev" => self.no_dev = false,
            "nodev" => self.no_dev = true,
            "suid" => self.no_suid = false,
            "nosuid" => self.no_suid = true,
            "exec" => self.no_exec = false,
            "noexec" => self.no_exec = true,
            "sync" => self.synchronous = true,
            "relatime" | "atime" | "nostrictatime" => self.atime = AtimeMode::Relatime,
            "noatime" => self.atime = AtimeMode::Noatime,
            "strictatime" | "norelatime" => self.atime = AtimeMode::Strictatime,
            "defaults" => {
                *self = Self { allow_other: self.allow_other, remount: self.remount, ..Self::default() }
            }
            "user" | "users" | "owner" | "group" => {
                // mount(8) documents this for these options.
                (self.no_dev, self.no_suid) = (true, true);
                self.no_exec |= matches!(word, "user" | "users");
            }
            other => {
                return WITHOUT_EFFECT.contains(&other)
                    // mount(8) reads the latter from the table of mounts and repeats them for a remount.
                    || ["x-", "X-", "comment=", "user_id=", "group_id=", "rootmode=", "blksize=", "max_read="].iter().any(|prefix| other.starts_with(prefix));
            }
        }
        true
    }

    /// Whether users other than the one who mounts may access the mount; `is_root` says whether root mounts.
    #[must_use]
    pub fn others_allowed(&self, is_root: bool) -> bool {
        self.allow_other.unwrap_or(is_root)
    }

    pub(super) fn flags(&self) -> MountFlags {
        let atime = match self.atime {
            AtimeMode::Relatime => MountFlags::RELATIME,
            AtimeMode::Noatime => MountFlags::NOATIME,
            AtimeMode::Strictatime => MountFlags::STRICTATIME,
        };
        let mut flags = atime;
        flags.set(MountFlags::RDONLY, self.read_only);
        flags.set(MountFlags::NODEV, self.no_dev);
        flags.set(MountFlags::NOSUID, self.no_suid);
        flags.set(MountFlags::NOEXEC, self.no_exec);
        flags.set(MountFlags::SYNCHRONOUS, self.synchronous);
        flags
    }

    /// The words for fusermount3, which adds `nodev` and `nosuid` itself.
    pub(super) fn words(&self) -> Vec<&'static str> {
        let mut words = vec!["default_permissions"];
        let optional = [
            (self.read_only, "ro"),
            (self.others_allowed(false), "allow_other"),
            (self.no_exec, "noexec"),
            (self.synchronous, "sync"),
            (self.atime == AtimeMode::Noatime, "noatime"),
        ];
        words.extend(optional.iter().filter(|(wanted, _)| *wanted).map(|(_, word)| *word));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> MountOptions {
        let mut options = MountOptions::default();
        for word in text.split(',') {
            assert!(options.apply(word), "{word}");
        }
        options
    }

    #[test]
    fn the_last_of_two_contradicting_options_wins() {
        assert!(!parsed("ro,nodev,rw,dev").read_only);
        assert!(!parsed("nodev,dev").no_dev);
        assert_eq!(parsed("noatime,strictatime").atime, AtimeMode::Strictatime);
        assert_eq!(parsed("ro,nosuid,defaults"), MountOptions::default());
    }

    #[test]
    fn fstab_options_for_other_programs_are_accepted_and_nonsense_is_not() {
        assert_eq!(parsed("noauto,nofail,x-systemd.automount,_netdev,comment=mine"), MountOptions::default());
        assert!(parsed("user").no_exec && parsed("user").no_suid && parsed("user,exec").no_dev);
        for word in ["nonsense", "", "cache=1G", "ro "] {
            assert!(!MountOptions::default().apply(word), "{word:?}");
        }
    }

    #[test]
    fn a_mount_of_root_is_for_all_users_unless_the_options_say_otherwise() {
        assert!(parsed("rw").others_allowed(true));
        assert!(!parsed("rw").others_allowed(false));
        assert!(!parsed("noallow_other").others_allowed(true));
        assert!(parsed("allow_other").others_allowed(false));
    }
}
