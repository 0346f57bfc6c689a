//! A line of strace: process, time, and a call with its arguments and its end.

use super::errno;
use crate::lines::parse_seconds;
use crate::record::Outcome;

const DAY_NS: u64 = 86_400_000_000_000;

/// What a line says.
#[derive(PartialEq, Eq, Debug)]
pub enum Event<T> {
    /// Nothing about a file: a signal.
    Nothing,
    /// The process ended.
    Exited,
    /// A whole call.
    Call(T),
    /// The beginning of a call that ends in a later line.
    Begun(T),
    /// The end of such a call.
    Resumed(T),
}

impl Event<&[u8]> {
    /// Keeps the text.
    pub fn into_owned(self) -> Event<Vec<u8>> {
        match self {
            Self::Nothing => Event::Nothing,
            Self::Exited => Event::Exited,
            Self::Call(text) => Event::Call(text.to_vec()),
            Self::Begun(text) => Event::Begun(text.to_vec()),
            Self::Resumed(text) => Event::Resumed(text.to_vec()),
        }
    }
}

/// A line, taken apart.
#[derive(PartialEq, Eq, Debug)]
pub struct Line<'a> {
    /// 0 if the trace is of one process and does not name it.
    pub pid: u32,
    /// As the trace gives it.
    pub time_ns: u64,
    pub event: Event<&'a [u8]>,
}

/// Times of the day (`-tt`) go on after midnight.
#[derive(Default)]
pub struct Clock {
    day: u64,
    last_ns: u64,
    is_of_day: bool,
}

impl Clock {
    pub fn is_of_day(&self) -> bool {
        self.is_of_day
    }

    fn parse(&mut self, text: &str) -> Option<u64> {
        if !text.contains(':') {
            return parse_seconds(text);
        }
        let mut parts = text.splitn(3, ':');
        let (hours, minutes) = (parse_seconds(parts.next()?)?, parse_seconds(parts.next()?)?);
        let of_day_ns = hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?;
        let of_day_ns = of_day_ns.checked_add(parse_seconds(parts.next()?)?).filter(|ns| *ns < DAY_NS)?;
        self.is_of_day = true;
        // Lines of several processes may be a little out of order.
        self.day += u64::from(self.last_ns > of_day_ns.saturating_add(DAY_NS / 2));
        self.last_ns = of_day_ns;
        Some(self.day * DAY_NS + of_day_ns)
    }
}

impl<'a> Line<'a> {
    pub fn parse(line: &'a [u8], clock: &mut Clock) -> Result<Self, String> {
        let (pid, rest) = take_pid(line)?;
        let (time, rest) = take_word(rest);
        let time = str::from_utf8(time).unwrap_or_default();
        let time_ns = clock.parse(time).ok_or("it has no time; run strace with -ttt")?;
        let event = if rest.starts_with(b"+++ exited") || rest.starts_with(b"+++ killed") {
            Event::Exited
        } else if rest.starts_with(b"---") || rest.starts_with(b"+++") {
            Event::Nothing
        } else if let Some(resumed) = rest.strip_prefix(b"<... ") {
            let at = find(resumed, b" resumed>").ok_or("a call that goes on has no name")?;
            Event::Resumed(&resumed[at + b" resumed>".len()..])
        } else if let Some(begun) = rest.trim_ascii_end().strip_suffix(b"<unfinished ...>") {
            Event::Begun(begun)
        } else {
            Event::Call(rest)
        };
        Ok(Self { pid, time_ns, event })
    }
}

/// `1234 `, `[pid 1234] `, or nothing.
fn take_pid(line: &[u8]) -> Result<(u32, &[u8]), String> {
    let number = |word: &[u8]| str::from_utf8(word).ok().and_then(|text| text.parse().ok());
    if let Some(rest) = line.strip_prefix(b"[pid") {
        let end = find(rest, b"]").ok_or("'[pid' is not closed")?;
        let pid = number(rest[..end].trim_ascii()).ok_or("'[pid' has no number")?;
        return Ok((pid, rest[end + 1..].trim_ascii_start()));
    }
    let (word, rest) = take_word(line);
    Ok(number(word).map_or((0, line), |pid| (pid, rest)))
}

fn take_word(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
    (&text[..end], text[end..].trim_ascii_start())
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// A call with its arguments as text.
#[derive(PartialEq, Eq, Debug)]
pub struct Call<'a> {
    pub name: &'a str,
    pub arguments: Vec<&'a [u8]>,
    /// The path in a result such as `3</tmp/a>`.
    pub result_path: Option<&'a [u8]>,
    pub outcome: Outcome,
    pub duration_ns: Option<u64>,
}

impl<'a> Call<'a> {
    pub fn parse(text: &'a [u8]) -> Result<Self, String> {
        let open = find(text, b"(").ok_or("it is no call: there is no parenthesis")?;
        let name = str::from_utf8(&text[..open]).unwrap_or_default();
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err("it is no call: a name and a parenthesis are missing".into());
        }
        let (arguments, rest) = split_arguments(&text[open + 1..])?;
        let rest = rest.trim_ascii();
        let result = rest.strip_prefix(b"=").ok_or("the call has no result")?.trim_ascii();
        let (result, duration) = take_duration(result)?;
        let (outcome, result_path) = parse_result(result)?;
        Ok(Self { name, arguments, result_path, outcome, duration_ns: duration })
    }
}

/// Arguments up to the parenthesis that closes the call, and what follows it.
fn split_arguments(text: &[u8]) -> Result<(Vec<&[u8]>, &[u8]), String> {
    let mut arguments = Vec::new();
    let (mut at, mut from, mut depth) = (0, 0, 0u32);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => at += string_len(&text[at..])? - 1,
            b'<' if is_path_mark(text, at) => at += path_len(&text[at..])? - 1,
            b'/' if text[at..].starts_with(b"/*") => {
                at += find(&text[at..], b"*/").ok_or("a comment is not closed")? + 1;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                let last = text[from..at].trim_ascii();
                if !last.is_empty() || !arguments.is_empty() {
                    arguments.push(last);
                }
                return Ok((arguments, &text[at + 1..]));
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                arguments.push(text[from..at].trim_ascii());
                from = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    Err("the call is not closed".into())
}

/// `3</tmp/a>` and `AT_FDCWD</tmp>`, but not `1<<3`.
fn is_path_mark(text: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| text[before]);
    before.is_some_and(|byte| byte.is_ascii_digit() || byte == b'D') && text.get(at + 1) != Some(&b'<')
}

/// Bytes from a quotation mark to the one that closes it.
fn string_len(text: &[u8]) -> Result<usize, String> {
    let mut at = 1;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => return Ok(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    Err("a string is not closed".into())
}

/// Bytes from `<` to the `>` that closes it: one before the next argument, since sockets have `->` within.
fn path_len(text: &[u8]) -> Result<usize, String> {
    let ends = |at: &usize| {
        text[*at] == b'>' && matches!(text.get(at + 1), None | Some(b',' | b'(' | b')' | b' ' | b']' | b'}'))
    };
    (1..text.len()).find(ends).map(|at| at + 1).ok_or_else(|| "the path of a descriptor is not closed".into())
}

fn take_duration(result: &[u8]) -> Result<(&[u8], Option<u64>), String> {
    let timed = result.strip_suffix(b">").and_then(|inner| {
        let at = inner.iter().rposition(|byte| *byte == b'<')?;
        // `3</tmp/a>` without a duration.
        let is_word = at == 0 || inner[at - 1] == b' ';
        is_word.then(|| (result[..at].trim_ascii_end(), &inner[at + 1..]))
    });
    let Some((result, duration)) = timed else { return Ok((result, None)) };
    let ns = str::from_utf8(duration).ok().and_then(parse_seconds);
    ns.map(|ns| (result, Some(ns))).ok_or_else(|| "the duration is no number".into())
}

fn parse_result(result: &[u8]) -> Result<(Outcome, Option<&[u8]>), String> {
    let wrong = || format!("'{}' is no result", result.escape_ascii());
    if result.starts_with(b"?") {
        return Ok((Outcome::Unknown, None));
    }
    if let Some(error) = result.strip_prefix(b"-1 ") {
        let (name, _) = take_word(error);
        let errno = str::from_utf8(name).ok().and_then(errno::number).ok_or_else(wrong)?;
        return Ok((Outcome::Failed(errno), None));
    }
    let end = result.iter().position(|byte| matches!(byte, b' ' | b'<')).unwrap_or(result.len());
    let number = str::from_utf8(&result[..end]).ok().and_then(|text| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    });
    let path = match result.get(end) {
        Some(b'<') => Some(&result[end + 1..end + path_len(&result[end..])? - 1]),
        _ => None,
    };
    Ok((Outcome::Done(number.ok_or_else(wrong)?), path))
}

/// The bytes of a string in C's notation; `None` if the argument is no string, or one that strace shortened.
pub fn string(argument: &[u8]) -> Option<Vec<u8>> {
    let inner = argument.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    Some(unescape(inner))
}

/// Resolves the escapes that strace writes.
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let Some(&escape) = rest.first() else { break };
        let digits = |radix: u32, from: usize, max: usize| {
            let len =
                rest[from..].iter().take(max).take_while(|byte| (**byte as char).is_digit(radix)).count();
            let text = str::from_utf8(&rest[from..from + len]).unwrap_or_default();
            (u32::from_str_radix(text, radix).unwrap_or(0) as u8, from + len)
        };
        let (value, len) = match escape {
            b'n' => (b'\n', 1),
            b't' => (b'\t', 1),
            b'r' => (b'\r', 1),
            b'v' => (0x0b, 1),
            b'f' => (0x0c, 1),
            b'x' => digits(16, 1, 2),
            b'0'..=b'7' => digits(8, 0, 3),
            other => (other, 1),
        };
        bytes.push(value);
        rest = &rest[len..];
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(text: &str) -> Call<'_> {
        Call::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn arguments_are_split_where_strace_means_it() {
        let parsed = call(
            r#"newfstatat(AT_FDCWD</tmp/a, (b)>, "x, \")\" y", {st_mode=S_IFDIR|0755, st_size=4096, ...}, 0) = 0 <0.000012>"#,
        );
        assert_eq!(parsed.arguments.len(), 4);
        assert_eq!(string(parsed.arguments[1]).unwrap(), b"x, \")\" y");
        assert_eq!((parsed.outcome, parsed.duration_ns), (Outcome::Done(0), Some(12_000)));
        let parsed =
            call(r#"write(3<TCP:[10.0.0.1:1->10.0.0.2:80]>, "GET "..., 1<<3) = -1 EPIPE (Broken pipe)"#);
        assert_eq!(
            (parsed.arguments.len(), parsed.outcome, parsed.duration_ns),
            (3, Outcome::Failed(32), None)
        );
        let parsed = call("openat(AT_FDCWD, \"a\\303\\244\\n\", O_RDONLY) = 3</tmp/a>");
        assert_eq!(string(parsed.arguments[1]).unwrap(), "aä\n".as_bytes());
        assert_eq!(parsed.result_path, Some(&b"/tmp/a"[..]));
        assert_eq!(call("getdents64(3, 0x55 /* 5, entries */, 32768) = 120").arguments.len(), 3);
        assert_eq!(call("read(0, 0x7f, 10) = ? ERESTARTSYS (To be restarted)").outcome, Outcome::Unknown);
        assert!(call("sync() = 0").arguments.is_empty());
    }

    #[test]
    fn malformed_calls_are_refused_and_cut_ones_never_panic() {
        for wrong in [
            "open",
            "(1) = 0",
            "open(\"a",
            "open(\"a\", 1",
            "open(3</a, 1) = 0",
            "open(1)",
            "open(1) = ",
            "open(1) = -1 ENOSUCHERROR",
            "open(1) = 0 <x>",
            "open(/* ) = 0",
            "what is this(1) = 0",
        ] {
            assert!(Call::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let whole = br#"1 2.5 openat(AT_FDCWD</t>, "a\x41\303", {a=[1, 2]}, 0644) = 3</t/aA> <0.000012>"#;
        for len in 0..whole.len() {
            let cut = &whole[..len];
            if let Ok(Line { event: Event::Call(text), .. }) = Line::parse(cut, &mut Clock::default()) {
                let _any = Call::parse(text);
            }
            unescape(cut);
        }
    }

    #[test]
    fn times_of_the_day_go_on_after_midnight() {
        let mut clock = Clock::default();
        assert_eq!(clock.parse("23:59:59.5"), Some(86_399_500_000_000));
        assert_eq!(clock.parse("00:00:00.25"), Some(86_400_250_000_000));
        assert_eq!(clock.parse("24:00:00"), None);
        assert!(clock.is_of_day());
    }

    #[test]
    fn processes_are_found_in_every_form() {
        for (text, pid) in
            [("5715  1.5 sync() = 0", 5715), ("[pid  12] 1.5 sync() = 0", 12), ("1.5 sync() = 0", 0)]
        {
            let line = Line::parse(text.as_bytes(), &mut Clock::default()).unwrap();
            assert_eq!(
                (line.pid, line.time_ns, line.event),
                (pid, 1_500_000_000, Event::Call(&b"sync() = 0"[..]))
            );
        }
        assert!(Line::parse(b"sync() = 0", &mut Clock::default()).is_err());
    }
}
