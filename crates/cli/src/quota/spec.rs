//! Limits as people write them: `blocks=8G:10G,inodes=100000,grace=3d`.

use super::view::ClassView;
use crate::failure::{Done, Failure};
use crate::sizes::parse_size;
use serde_json::{Value, json};
use std::str::FromStr;

/// What `--set` asks for. `None` leaves a value alone, 0 removes a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spec {
    /// Soft and hard limit of space, in bytes.
    bytes: [Option<u64>; 2],
    /// Soft and hard limit of inodes.
    inodes: [Option<u64>; 2],
    /// Grace time, in seconds.
    grace_s: Option<u32>,
}

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut spec = Self::default();
        for part in text.split(',') {
            match part.split_once('=') {
                Some(("blocks", limit)) => {
                    spec.bytes = limits(limit, |size| parse_size(size).map_err(|e| e.to_string()))?
                }
                Some(("inodes", limit)) => {
                    spec.inodes = limits(limit, |count| {
                        count.parse().map_err(|_| format!("`{count}` is not a number of inodes"))
                    })?;
                }
                Some(("grace", time)) => spec.grace_s = Some(seconds(time)?),
                _ => {
                    return Err(format!("`{part}` is none of blocks=LIMIT, inodes=LIMIT and grace=TIME"));
                }
            }
        }
        Ok(spec)
    }
}

/// `HARD` or `SOFT:HARD`.
fn limits(text: &str, parse: impl Fn(&str) -> Result<u64, String>) -> Result<[Option<u64>; 2], String> {
    if text == "none" {
        return Ok([Some(0); 2]);
    }
    let one = |text: &str| match text {
        "" => Ok(None),
        "none" => Ok(Some(0)),
        _ => parse(text).map(Some),
    };
    let (soft, hard) = text.split_once(':').unwrap_or(("", text));
    match [one(soft)?, one(hard)?] {
        [None, None] => Err("a limit is HARD or SOFT:HARD, e.g. 10G or 8G:10G".to_owned()),
        limits => Ok(limits),
    }
}

fn seconds(text: &str) -> Result<u32, String> {
    let bad = || format!("`{text}` is not a time: write a number and a unit, e.g. 90s, 10m, 12h, 7d or 2w");
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let scale: u32 = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        "w" => 7 * 24 * 60 * 60,
        _ => return Err(bad()),
    };
    number.parse::<u32>().ok().and_then(|n| n.checked_mul(scale)).ok_or_else(bad)
}

impl Spec {
    /// The requests to the daemon: limits of one user or group, and the grace time of all of its class, or of both classes.
    /// The grace time comes first: a limit that is exceeded already starts the clock with it.
    ///
    /// # Errors
    /// Limits of nobody.
    pub fn requests(&self, who: Option<(ClassView, u32)>) -> Done<Vec<Value>> {
        let mut requests = Vec::new();
        if let Some(grace_s) = self.grace_s {
            let classes = who.map_or(vec![ClassView::User, ClassView::Group], |(class, _)| vec![class]);
            requests.extend(classes.into_iter().map(|class| json!({ "class": class, "grace_s": grace_s })));
        }
        if self.bytes != [None; 2] || self.inodes != [None; 2] {
            let Some((class, id)) = who else {
                return Err(Failure::usage("limits are those of a user or group")
                    .advise("add --user NAME or --group NAME"));
            };
            let [bytes_soft, bytes_hard] = self.bytes;
            let [inodes_soft, inodes_hard] = self.inodes;
            requests.push(json!({
                "class": class, "id": id, "bytes_soft": bytes_soft, "bytes_hard": bytes_hard,
                "inodes_soft": inodes_soft, "inodes_hard": inodes_hard,
            }));
        }
        Ok(requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_hard_or_soft_and_hard() {
        let spec: Spec = "blocks=8G:10G,inodes=100,grace=3d".parse().unwrap();
        let expected = Spec {
            bytes: [Some(8 << 30), Some(10 << 30)],
            inodes: [None, Some(100)],
            grace_s: Some(259_200),
        };
        assert_eq!(spec, expected);
        let spec: Spec = "inodes=5:,blocks=none".parse().unwrap();
        assert_eq!(spec, Spec { bytes: [Some(0); 2], inodes: [Some(5), None], grace_s: None });
        for wrong in ["", "blocks", "blocks=", "inodes=:", "blocks=ten", "inodes=1K", "grace=3y", "size=1G"] {
            assert!(wrong.parse::<Spec>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn limits_need_an_owner_and_grace_times_do_not() {
        let spec: Spec = "blocks=1G,grace=1h".parse().unwrap();
        assert!(spec.requests(None).is_err());
        assert_eq!(spec.requests(Some((ClassView::User, 7))).unwrap().len(), 2);
        let spec: Spec = "grace=1h".parse().unwrap();
        assert_eq!(spec.requests(None).unwrap().len(), 2, "users and groups");
    }

    #[test]
    fn the_grace_time_is_set_before_the_limits_that_start_its_clock() {
        let spec: Spec = "blocks=1G:2G,grace=1h".parse().unwrap();
        let requests = spec.requests(Some((ClassView::User, 7))).unwrap();
        assert_eq!(requests[0]["grace_s"], 3600);
        assert_eq!(requests[1]["bytes_soft"], 1 << 30);
    }
}
