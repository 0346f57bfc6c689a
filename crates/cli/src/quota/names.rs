//! Names of users and groups: from `/etc/passwd` and `/etc/group`, or else from getent(1), which knows other sources.

use super::view::ClassView;
use crate::failure::{Done, Failure};
use std::collections::BTreeMap;
use std::process::Command;

/// The names of a class.
pub struct Names {
    class: ClassView,
    by_id: BTreeMap<u32, String>,
}

impl Names {
    /// What the system's own files say.
    pub fn of(class: ClassView) -> Self {
        let path = match class {
            ClassView::User => "/etc/passwd",
            ClassView::Group => "/etc/group",
        };
        let by_id = std::fs::read_to_string(path).map_or_else(|_| BTreeMap::new(), |text| parse(&text));
        Self { class, by_id }
    }

    /// The number of a name; numbers stand for themselves unless they are names.
    ///
    /// # Errors
    /// There is no such name.
    pub fn id(&self, name: &str) -> Done<u32> {
        let found = self.by_id.iter().find(|(_, known)| *known == name).map(|(id, _)| *id);
        let found = found.or_else(|| name.parse().ok());
        let found = found.or_else(|| parse(&self.getent(name)?).into_iter().next().map(|(id, _)| id));
        found.ok_or_else(|| {
            let what = self.class.word();
            Failure::usage(format!("there is no {what} '{name}'")).advise(format!("give the {what}'s number"))
        })
    }

    /// The name of a number, if it has one.
    pub fn name(&self, id: u32) -> Option<String> {
        self.by_id.get(&id).cloned()
    }

    /// Asks all sources of names.
    fn getent(&self, name: &str) -> Option<String> {
        let database = match self.class {
            ClassView::User => "passwd",
            ClassView::Group => "group",
        };
        let done = Command::new("getent").arg("--").arg(database).arg(name).output().ok()?;
        done.status.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned())
    }
}

/// Lines of passwd(5) or group(5): name, password, number. The first name of a number counts.
fn parse(text: &str) -> BTreeMap<u32, String> {
    let mut by_id = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split(':');
        let (Some(name), Some(id)) = (fields.next(), fields.nth(1).and_then(|id| id.parse().ok())) else {
            continue;
        };
        by_id.entry(id).or_insert_with(|| name.to_owned());
    }
    by_id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_both_lead_to_the_number() {
        let by_id =
            parse("root:x:0:0:root:/root:/bin/sh\n# no entry\nann:x:1001:100::/:\ntwin:x:1001:1::/:\n");
        let names = Names { class: ClassView::User, by_id };
        assert_eq!(names.id("ann").unwrap(), 1001);
        assert_eq!(names.id("4711").unwrap(), 4711);
        assert_eq!(names.name(1001).as_deref(), Some("ann"));
        assert_eq!(names.name(5), None);
        assert!(names.id("no such user, surely").is_err());
    }
}
