//! Whether a thread will die of a signal that is pending, as proc(5) tells it.
//!
//! If a signal is certain to end a process, the kernel itself adds a pending SIGKILL for each of its threads, except if the
//! signal dumps core. So SIGKILL mostly is the one to look for.

use signal_hook::consts::{SIGCHLD, SIGCONT, SIGKILL, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH};

/// Those that by default do not end a process.
const HARMLESS: u64 = bit(SIGCHLD)
    | bit(SIGCONT)
    | bit(SIGSTOP)
    | bit(SIGTSTP)
    | bit(SIGTTIN)
    | bit(SIGTTOU)
    | bit(SIGURG)
    | bit(SIGWINCH);

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Whether a pending signal will end that thread. False if the daemon cannot see it, or may not.
pub(super) fn will_die(thread: u32) -> bool {
    thread != 0 && std::fs::read_to_string(format!("/proc/{thread}/status")).is_ok_and(|status| ends(&status))
}

fn ends(status: &str) -> bool {
    let mask = |name: &str| {
        let field = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        field.and_then(|word| u64::from_str_radix(word.trim(), 16).ok()).unwrap_or(0)
    };
    let pending = mask("SigPnd") | mask("ShdPnd");
    let survived = mask("SigBlk") | mask("SigIgn") | mask("SigCgt") | HARMLESS;
    // Nothing blocks, ignores or handles this one.
    pending & bit(SIGKILL) != 0 || pending & !survived != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::consts::{SIGINT, SIGQUIT};

    fn status(pending: u64, shared: u64, handled: u64) -> String {
        format!(
            "Name:\tx\nSigQ:\t1/9\nSigPnd:\t{pending:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{:016x}\nSigIgn:\t{:016x}\nSigCgt:\t{handled:016x}\n",
            0, 0
        )
    }

    #[test]
    fn only_signals_that_end_a_process_count() {
        assert!(ends(&status(bit(SIGKILL), 0, 0)) && ends(&status(0, bit(SIGKILL), u64::MAX)));
        assert!(ends(&status(0, bit(SIGQUIT), 0)) && ends(&status(bit(SIGINT), 0, bit(SIGQUIT))));
        assert!(!ends(&status(0, bit(SIGINT), bit(SIGINT))), "it is handled");
        assert!(!ends(&status(bit(SIGCHLD) | bit(SIGTSTP), bit(SIGWINCH), 0)) && !ends(&status(0, 0, 0)));
        assert!(!ends("") && !will_die(0) && !will_die(std::process::id()));
    }
}
