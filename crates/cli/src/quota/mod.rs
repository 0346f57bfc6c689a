//! `firn quota`: quotas of a mounted volume, for users and groups.
//!
//! The daemon keeps usage and limits; this command asks it over the control socket, and turns names into numbers and back. `spec` reads
//! limits, `names` knows users and groups, `view` is what the daemon answers, `text` shows it, `service` is the daemon's side.

mod names;
pub mod service;
mod spec;
mod text;
mod view;

use crate::completion::values;
use crate::failure::{Done, Exit, Failure};
use crate::output::Output;
use clap::{ArgGroup, Args};
use firnfs_fuse::control::{Client, ClientError, ErrorKind};
use names::Names;
use serde_json::{Value, json};
use spec::Spec;
use std::path::PathBuf;
use view::{CheckView, ClassView, ReportView};

/// Arguments of `firn quota`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("what"), group = ArgGroup::new("who"), after_help = "\
Examples:
  firn quota /mnt --on                                   count what everyone has; enforce limits
  firn quota /mnt --user ann --set blocks=8G:10G         soft limit 8 GiB, hard limit 10 GiB
  firn quota /mnt --group lab --set inodes=100000        at most 100000 files and directories
  firn quota /mnt --user ann --set blocks=none           no limit of space any more
  firn quota /mnt --set grace=3d                         grace time of all users and groups
  firn quota /mnt                                        what everyone has, and may have
  firn quota /mnt --user 1001 --json                     one user, for scripts
  firn quota /mnt --check                                count again, and say what was kept wrongly

--set takes blocks=LIMIT, inodes=LIMIT and grace=TIME, with commas in between. LIMIT is HARD or SOFT:HARD; an
empty one stays as it is, 'none' removes it. Blocks are bytes of space as du(1) adds them up. A soft limit may
be exceeded for the grace time (7 days at first; s, m, h, d, w), which users, and groups, have in common; a hard
limit never. Limits do not bind root. Quotas stay on over unmounts; a mount then counts all inodes first.
Only root and the owner of the mount may ask. quota(1), edquota(8) and repquota(8) do not reach FUSE mounts.")]
pub struct QuotaArgs {
    /// Any path on the mount
    #[arg(add = values::mounts())]
    pub path: PathBuf,
    /// Turn quotas on
    #[arg(long, group = "what")]
    pub on: bool,
    /// Turn quotas off; limits stay
    #[arg(long, group = "what")]
    pub off: bool,
    /// Count everything again and compare, as quotacheck(8) does
    #[arg(long, group = "what", conflicts_with = "who")]
    pub check: bool,
    /// Set limits or a grace time
    #[arg(long, group = "what", value_name = "LIMITS")]
    pub set: Option<Spec>,
    /// Show usage and limits, after any change [default without other options]
    #[arg(long)]
    pub report: bool,
    /// Only this user, by name or number
    #[arg(long, group = "who", value_name = "NAME")]
    pub user: Option<String>,
    /// Only this group, by name or number
    #[arg(long, group = "who", value_name = "NAME")]
    pub group: Option<String>,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// # Errors
/// Not a mount, an unknown name, limits that make no sense, or the daemon refuses.
pub fn run(args: &QuotaArgs, output: &mut Output) -> Done {
    let who = match (&args.user, &args.group) {
        (Some(name), _) => Some((ClassView::User, Names::of(ClassView::User).id(name)?)),
        (_, Some(name)) => Some((ClassView::Group, Names::of(ClassView::Group).id(name)?)),
        _ => None,
    };
    let (mut client, _) = Client::for_path(&args.path).map_err(|e| failure_of(&e))?;
    let mut change = |op: &str, arguments: Value| client.call(op, arguments).map_err(|e| failure_of(&e));
    if args.on || args.off {
        change(service::SWITCH_OP, json!({ "on": args.on }))?;
    }
    if args.check {
        let check: CheckView = client.ask(service::CHECK_OP, json!({})).map_err(|e| failure_of(&e))?;
        return output.show(args.json, &check, |out| text::check(out, &check));
    }
    if let Some(spec) = &args.set {
        for request in spec.requests(who)? {
            change(service::SET_OP, request)?;
        }
    }
    let is_change = args.on || args.off || args.set.is_some();
    if is_change && !args.report && !args.json {
        return Ok(());
    }
    let mut report: ReportView = client.ask(service::REPORT_OP, json!({})).map_err(|e| failure_of(&e))?;
    if let Some((class, id)) = who {
        report.lines.retain(|line| line.class == class && line.id == id);
    }
    report.name_lines();
    output.show(args.json, &report, |out| text::report(out, &report))
}

fn failure_of(error: &ClientError) -> Failure {
    match error {
        ClientError::NotMounted(_) => Failure::new(Exit::NotAVolume, error.to_string())
            .advise("quotas are kept by the daemon of a mount: mount the volume first"),
        ClientError::Refused(refused) if refused.kind == ErrorKind::UnknownOp => {
            Failure::failed("the daemon of this mount knows no quotas")
                .advise("unmount the volume, and mount it with this firn")
        }
        ClientError::Refused(refused) if refused.kind == ErrorKind::InvalidArgument => {
            Failure::usage(refused.message.clone())
        }
        ClientError::Refused(refused) if refused.errno.as_deref() == Some("ENOSPC") => {
            Failure::failed("the limits cannot be stored: no space, or too many users or groups have limits")
                .advise("delete files, or remove limits with --set blocks=none,inodes=none")
        }
        _ => Failure::failed(error.to_string()),
    }
}
