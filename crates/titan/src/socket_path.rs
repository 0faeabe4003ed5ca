//! Where the Unix socket of the admin interface is unless the configuration says so: the gateway and the commands that
//! talk to it agree on that without a word.

use rustix::process::geteuid;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What decides about it.
pub(crate) struct Surroundings {
    /// `$RUNTIME_DIRECTORY`: the directories that systemd has made for a service.
    runtime_directory: Option<OsString>,
    /// `$XDG_RUNTIME_DIR`: the directory of a user who is logged in.
    user_directory: Option<OsString>,
    is_root: bool,
}

/// The directory of a gateway that root runs, and the one that systemd makes for `packaging/titan.service`.
const SYSTEM: &str = "/run/titan";
const NAME: &str = "admin.sock";

impl Surroundings {
    /// Those of this process.
    pub(crate) fn of_process() -> Surroundings {
        Surroundings {
            runtime_directory: std::env::var_os("RUNTIME_DIRECTORY"),
            user_directory: std::env::var_os("XDG_RUNTIME_DIR"),
            is_root: geteuid().is_root(),
        }
    }

    /// Where a gateway listens; nowhere where there is no directory for that.
    pub(crate) fn for_gateway(&self) -> Option<PathBuf> {
        let standard = match self.is_root {
            true => Some(PathBuf::from(SYSTEM)),
            false => self.of_user(),
        };
        Some(self.of_service().or(standard)?.join(NAME))
    }

    /// Where a command looks for a gateway, the likeliest place first.
    pub(crate) fn for_commands(&self) -> Vec<PathBuf> {
        let of_user = self.of_user().filter(|_| !self.is_root);
        let places = [self.of_service(), of_user, Some(PathBuf::from(SYSTEM))];
        let mut paths: Vec<PathBuf> = Vec::new();
        for path in places.into_iter().flatten().map(|place| place.join(NAME)) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }

    /// The first one, of several.
    fn of_service(&self) -> Option<PathBuf> {
        let all = self.runtime_directory.as_deref()?.to_str()?;
        all.split(':').next().and_then(absolute)
    }

    fn of_user(&self) -> Option<PathBuf> {
        Some(absolute(self.user_directory.as_deref()?.to_str()?)?.join("titan"))
    }
}

fn absolute(path: &str) -> Option<PathBuf> {
    Some(Path::new(path)).filter(|path| path.is_absolute()).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(runtime: &str, user: &str, is_root: bool) -> Surroundings {
        let set = |text: &str| Some(OsString::from(text)).filter(|text| !text.is_empty());
        Surroundings { runtime_directory: set(runtime), user_directory: set(user), is_root }
    }

    #[test]
    fn a_gateway_and_its_commands_meet() {
        for (runtime, user, is_root, gateway, commands) in [
            ("/run/titan", "", false, "/run/titan/admin.sock", "/run/titan/admin.sock"),
            (
                "/run/a:/run/b",
                "",
                true,
                "/run/a/admin.sock",
                "/run/a/admin.sock /run/titan/admin.sock",
            ),
            ("", "/run/user/0", true, "/run/titan/admin.sock", "/run/titan/admin.sock"),
            (
                "",
                "/run/user/7",
                false,
                "/run/user/7/titan/admin.sock",
                "/run/user/7/titan/admin.sock /run/titan/admin.sock",
            ),
            ("", "", false, "", "/run/titan/admin.sock"),
            ("relative", "relative", false, "", "/run/titan/admin.sock"),
        ] {
            let surroundings = of(runtime, user, is_root);
            let path = surroundings.for_gateway().unwrap_or_default();
            assert_eq!(path, Path::new(gateway), "{runtime} {user} {is_root}");
            let paths = surroundings.for_commands();
            let paths: Vec<_> = paths.iter().map(|path| path.to_str().unwrap()).collect();
            assert_eq!(paths.join(" "), commands, "{runtime} {user} {is_root}");
        }
    }
}
