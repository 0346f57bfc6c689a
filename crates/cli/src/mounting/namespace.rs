//! `mount -N NAMESPACE` and `umount -N NAMESPACE`: mount(8) reads its tables there, but runs the helper where itself began, and has the helper
//! enter.

use super::options::MountPlan;
use crate::failure::{Done, Failure};
use rustix::fd::AsFd;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::path::Path;

/// Enters the namespace of a plan, if it has one and this is the process that mounts.
///
/// # Errors
/// As [`enter`]; the state of a mounted volume is to be shown there, for which its daemon would have to be there as well.
pub(super) fn enter_for(plan: &MountPlan) -> Done {
    let Some(file) = &plan.namespace else { return Ok(()) };
    if plan.state.is_some() {
        return Err(Failure::usage("-N: a state of a volume cannot be mounted in another namespace")
            .advise("nsenter(1) runs 'firn mount' there"));
    }
    let only_starts_it = !(plan.foreground || plan.daemon || plan.fake || plan.mount_options.remount);
    if only_starts_it { Ok(()) } else { enter(file) }
}

/// Enters a namespace. Only while this process has one thread.
///
/// # Errors
/// The file is none, or the system does not let this user in.
pub(super) fn enter(file: &Path) -> Done {
    let namespace = std::fs::File::open(file).map_err(|e| Failure::io("cannot open", file, &e))?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))
        .map_err(|errno| Failure::io("cannot enter the namespace", file, &errno.into()))
}
