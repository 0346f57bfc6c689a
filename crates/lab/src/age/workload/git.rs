//! Aging workloads from a git repository: the life of a developer's disk. It begins with a clone: the state before the oldest commit. Each
//! commit of the first-parent history then changes the files that it names, at its time, as a checkout does: a changed file is deleted and
//! made anew. After some commits a build follows, with synthetic products: an object for each changed source, a program that is linked
//! again, and temporary files of the preset for engineering. Now and then the developer checks out an older state, and the present one
//! again.

use super::profile::{Preset, Profile};
use super::{Act, Counts, Emitter, Event, ROOT};
use crate::error::LabError;
use firnfs_device::plain_reason;
use firnfs_workload::{Header, Origin};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

/// A compiler's temporary files and the objects follow a checkout within this time.
const BUILD_NS: i64 = 60_000_000_000;
/// How long an older state stays checked out.
const LOOK_NS: i64 = 60_000_000_000;
/// Ends of names of files that are compiled.
const SOURCES: [&str; 8] = [".c", ".cc", ".cpp", ".rs", ".go", ".java", ".s", ".S"];

/// Which history, and what happens between commits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Repository {
    /// Where it is.
    pub path: PathBuf,
    /// Its newest commits at most; what was there before them is checked out first.
    pub commits_max: Option<u64>,
    /// A build follows after this many commits; 0: never.
    pub build_every: u64,
    /// After this many commits the state before them is checked out, and the present one again; 0: never.
    pub checkout_every: u64,
    /// For the build products.
    pub seed: u64,
}

/// Writes the workload. `progress` hears of the number of commits.
///
/// # Errors
/// git fails, or says what cannot be understood; writing failed; `progress` ends it.
pub fn from_git(
    repository: &Repository,
    out: impl Write,
    progress: &mut dyn FnMut(u64) -> Result<(), LabError>,
) -> Result<Counts, LabError> {
    let mut log = Log::start(repository)?;
    let mut sizes = Sizes::start(&repository.path)?;
    let Some(mut commit) = log.next()? else {
        return Err(LabError::Setup(format!("{} has no commits", repository.path.display())));
    };
    let mut emitter = Emitter::new(out, &repository.header(commit.time_ns))?;
    let mut tree = Tree::new(repository);
    tree.now_ns = commit.time_ns;
    let (mut commits, mut changed) = (0, Vec::new());
    if let Some(parent) = log.parent.take() {
        changed = listed(&repository.path, &parent)?;
        changed.iter().try_for_each(|(path, bytes)| tree.commit(path, Some(*bytes), &mut emitter))?;
    }
    loop {
        commits += 1;
        progress(commits)?;
        tree.now_ns = tree.now_ns.max(commit.time_ns);
        for change in &commit.changes {
            let size = change.blob.as_deref().map(|blob| sizes.of(blob)).transpose()?;
            tree.commit(&change.path, size, &mut emitter)?;
            changed.extend(size.map(|size| (change.path.clone(), size)));
        }
        if commits == 1 {
            // Nobody who has just made a clone looks back behind it.
            tree.before.clear();
        } else if repository.checkout_every > 0 && commits % repository.checkout_every == 0 {
            changed.extend(tree.look_back(&mut emitter)?);
        }
        if repository.build_every > 0 && commits % repository.build_every == 0 {
            tree.build(std::mem::take(&mut changed), &mut emitter)?;
        }
        match log.next()? {
            Some(next) => commit = next,
            None => break,
        }
    }
    emitter.finish()
}

impl Repository {
    fn header(&self, start_ns: i64) -> Header {
        let mut header = Header::new(Origin::Made);
        header.start_ns = start_ns.max(0).cast_unsigned();
        let mut option = |name: &str, value: String| header.options.push((name.to_owned(), value));
        option("from", "git".to_owned());
        option("build_every", self.build_every.to_string());
        option("build_products", "synthetic".to_owned());
        option("checkout_every", self.checkout_every.to_string());
        option("seed", self.seed.to_string());
        header
    }

    fn git(path: &Path) -> Command {
        let mut git = Command::new("git");
        git.arg("-C").arg(path).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        git
    }
}

/// A file that a commit changes; without a blob it is removed.
struct Change {
    path: Vec<u8>,
    blob: Option<String>,
}

struct Commit {
    time_ns: i64,
    changes: Vec<Change>,
}

/// The history, oldest commit first.
struct Log {
    child: Child,
    /// Reads what git complains of.
    complaints: Option<JoinHandle<Vec<u8>>>,
    lines: BufReader<ChildStdout>,
    /// The head of the next commit, which ended the one before.
    next_ns: Option<i64>,
    /// The commit before the oldest, if the history was cut there.
    parent: Option<String>,
}

fn strange(line: &[u8]) -> LabError {
    LabError::Setup(format!("git says what cannot be understood: {}", line.escape_ascii()))
}

/// The last line of what git complained of.
fn last_of(complaints: &[u8]) -> String {
    let text = String::from_utf8_lossy(complaints);
    let last = text.lines().rfind(|line| !line.is_empty()).unwrap_or("git does not say why");
    last.strip_prefix("fatal: ").unwrap_or(last).to_owned()
}

impl Log {
    fn start(repository: &Repository) -> Result<Self, LabError> {
        let mut git = Repository::git(&repository.path);
        git.args([
            "-c",
            "core.quotePath=false",
            "log",
            "--first-parent",
            "--diff-merges=first-parent",
            "--reverse",
        ]);
        git.args(["--raw", "--no-abbrev", "--no-renames", "-z", "--format=commit %ct %P"]);
        git.args(repository.commits_max.map(|most| format!("--max-count={most}")));
        git.stderr(Stdio::piped());
        let mut child = git.spawn().map_err(|e| tool(&git, plain_reason(&e)))?;
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut errors = child.stderr.take().expect("a pipe");
        let complaints = std::thread::spawn(move || {
            let mut text = Vec::new();
            // What cannot be read is only missing from a message.
            let _ = errors.read_to_end(&mut text);
            text
        });
        let mut log = Self { child, complaints: Some(complaints), lines, next_ns: None, parent: None };
        if let Some(field) = log.field()? {
            log.next_ns = Some(commit_ns(&field).ok_or_else(|| strange(&field))?);
            // "commit", its time, its parents.
            let first = field.split(|&byte| byte == b' ').nth(2).filter(|parent| !parent.is_empty());
            log.parent = first.map(|parent| String::from_utf8_lossy(parent).into_owned());
        }
        Ok(log)
    }

    /// A text that ends with NUL; `None` at the end of the output.
    fn field(&mut self) -> Result<Option<Vec<u8>>, LabError> {
        let mut field = Vec::new();
        self.lines.read_until(0, &mut field).map_err(|e| LabError::Setup(format!("git: {e}")))?;
        if field.is_empty() {
            let status = self.child.wait().map_err(|e| LabError::Setup(format!("git: {e}")))?;
            if status.success() {
                return Ok(None);
            }
            let complaints = self.complaints.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
            return Err(LabError::Tool { command: "git log".to_owned(), reason: last_of(&complaints) });
        }
        field.pop_if(|byte| *byte == 0);
        Ok(Some(field))
    }

    fn next(&mut self) -> Result<Option<Commit>, LabError> {
        let Some(time_ns) = self.next_ns.take() else { return Ok(None) };
        let mut commit = Commit { time_ns, changes: Vec::new() };
        while let Some(field) = self.field()? {
            let head = field.strip_prefix(b"\n").unwrap_or(&field);
            if let Some(next_ns) = commit_ns(head) {
                self.next_ns = Some(next_ns);
                break;
            }
            if head.is_empty() {
                continue;
            }
            // :mode mode blob blob letter, then the path.
            let words: Vec<&[u8]> = head.split(|&byte| byte == b' ').collect();
            let (Some(&[_, mode, _, blob, letter]), Some(path)) =
                (words.first_chunk::<5>().filter(|_| head.starts_with(b":")), self.field()?)
            else {
                return Err(strange(head));
            };
            let is_file = mode.starts_with(b"100") && letter != b"D";
            let blob = is_file.then(|| String::from_utf8_lossy(blob).into_owned());
            commit.changes.push(Change { path, blob });
        }
        Ok(Some(commit))
    }
}

fn commit_ns(field: &[u8]) -> Option<i64> {
    let mut words = std::str::from_utf8(field.strip_prefix(b"commit ")?).ok()?.split_whitespace();
    words.next()?.parse::<i64>().ok()?.checked_mul(1_000_000_000)
}

/// All files of a commit, with their sizes in bytes.
fn listed(path: &Path, commit: &str) -> Result<Vec<(Vec<u8>, u64)>, LabError> {
    let mut git = Repository::git(path);
    git.args(["ls-tree", "-r", "-z", "-l", commit]).stderr(Stdio::piped());
    let output = git.output().map_err(|e| tool(&git, plain_reason(&e)))?;
    if !output.status.success() {
        return Err(tool(&git, last_of(&output.stderr)));
    }
    let mut files = Vec::new();
    // Mode, type, blob and size in a column; a tab; the path.
    for line in output.stdout.split(|&byte| byte == 0).filter(|line| line.starts_with(b"100")) {
        let size_and_path = || {
            let tab = line.iter().position(|&byte| byte == b'\t')?;
            let size = std::str::from_utf8(&line[..tab]).ok()?.split_whitespace().nth(3)?;
            Some((line[tab + 1..].to_vec(), size.parse().ok()?))
        };
        files.push(size_and_path().ok_or_else(|| strange(line))?);
    }
    Ok(files)
}

fn tool(command: &Command, reason: String) -> LabError {
    LabError::Tool { command: format!("{command:?}"), reason }
}

impl Drop for Log {
    fn drop(&mut self) {
        // It has ended already, unless the history was not read to its end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sizes of blobs.
struct Sizes {
    child: Child,
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Sizes {
    fn start(path: &Path) -> Result<Self, LabError> {
        let mut git = Repository::git(path);
        git.args(["cat-file", "--batch-check=%(objectsize)"]).stdin(Stdio::piped());
        let mut child = git.spawn().map_err(|e| tool(&git, plain_reason(&e)))?;
        let (ask, answers) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        Ok(Self { child, ask, answers: BufReader::new(answers) })
    }

    fn of(&mut self, blob: &str) -> Result<u64, LabError> {
        let failed = |e: std::io::Error| LabError::Setup(format!("git cat-file: {e}"));
        writeln!(self.ask.as_mut().expect("open until dropped"), "{blob}").map_err(failed)?;
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(failed)?;
        line.trim().parse().map_err(|_| strange(line.as_bytes()))
    }
}

impl Drop for Sizes {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.ask.take());
        let _ = self.child.wait();
    }
}

/// The files that are checked out, and the products of builds.
struct Tree {
    now_ns: i64,
    rng: Pcg64Mcg,
    profiles: Vec<Profile>,
    /// Numbers of paths, of files and directories.
    numbers: BTreeMap<Vec<u8>, u64>,
    /// Files that exist.
    files: BTreeSet<u64>,
    /// Sizes of the files of the newest commit.
    sizes: BTreeMap<Vec<u8>, u64>,
    /// What changed since the developer looked back, as it was then.
    before: BTreeMap<Vec<u8>, Option<u64>>,
    next_short: u64,
    objects_bytes: BTreeMap<u64, u64>,
}

impl Tree {
    fn new(repository: &Repository) -> Self {
        Self {
            now_ns: 0,
            rng: Pcg64Mcg::seed_from_u64(repository.seed),
            profiles: Preset::Engineering.profiles(repository.seed),
            numbers: BTreeMap::new(),
            files: BTreeSet::new(),
            sizes: BTreeMap::new(),
            before: BTreeMap::new(),
            next_short: 0,
            objects_bytes: BTreeMap::new(),
        }
    }

    fn number(&mut self, path: &[u8]) -> u64 {
        let next = ROOT + 1 + self.numbers.len() as u64;
        *self.numbers.entry(path.to_vec()).or_insert(next)
    }

    fn directory_of(&mut self, path: &[u8]) -> u64 {
        match path.iter().rposition(|&byte| byte == b'/') {
            // A directory and a file may have had the same path.
            Some(at) => self.number(&path[..=at]),
            None => ROOT,
        }
    }

    /// Changes a file of the repository.
    fn commit<W: Write>(
        &mut self,
        path: &[u8],
        size_bytes: Option<u64>,
        emitter: &mut Emitter<W>,
    ) -> Result<(), LabError> {
        let was = match size_bytes {
            Some(bytes) => self.sizes.insert(path.to_vec(), bytes),
            None => self.sizes.remove(path),
        };
        self.before.entry(path.to_vec()).or_insert(was);
        self.check_out(path, size_bytes, emitter)
    }

    /// Checks out the state before the last commits, and the present one again. Returns the files that are new on the disk after that, with
    /// their sizes.
    fn look_back<W: Write>(&mut self, emitter: &mut Emitter<W>) -> Result<Vec<(Vec<u8>, u64)>, LabError> {
        let before = std::mem::take(&mut self.before);
        before.iter().try_for_each(|(path, size_bytes)| self.check_out(path, *size_bytes, emitter))?;
        self.now_ns += LOOK_NS;
        let mut new = Vec::new();
        for path in before.into_keys() {
            let size_bytes = self.sizes.get(&path).copied();
            self.check_out(&path, size_bytes, emitter)?;
            new.extend(size_bytes.map(|bytes| (path, bytes)));
        }
        Ok(new)
    }

    /// Replaces or removes a file.
    fn check_out<W: Write>(
        &mut self,
        path: &[u8],
        size_bytes: Option<u64>,
        emitter: &mut Emitter<W>,
    ) -> Result<(), LabError> {
        let (file, dir, time_ns) = (self.number(path), self.directory_of(path), self.now_ns);
        if self.files.remove(&file) {
            emitter.event(&Event { time_ns, dir, file, act: Act::Delete })?;
        }
        if let Some(size_bytes) = size_bytes {
            self.files.insert(file);
            emitter.event(&Event { time_ns, dir, file, act: Act::Create { size_bytes } })?;
        } else {
            emitter.event(&Event { time_ns, dir, file: dir, act: Act::RemoveDirectory })?;
        }
        Ok(())
    }

    /// Compiles what changed, and links.
    fn build<W: Write>(
        &mut self,
        changed: Vec<(Vec<u8>, u64)>,
        emitter: &mut Emitter<W>,
    ) -> Result<(), LabError> {
        let is_source = |path: &[u8]| SOURCES.iter().any(|end| path.ends_with(end.as_bytes()));
        let latest: BTreeMap<Vec<u8>, u64> =
            changed.into_iter().filter(|(path, _)| is_source(path)).collect();
        if latest.is_empty() {
            return Ok(());
        }
        let profile = self.profiles[self.rng.random_range(0..self.profiles.len())].clone();
        let build = self.number(b"build/");
        let day = self.now_ns..self.now_ns + BUILD_NS;
        let mut temporary = profile.place(build, day, BUILD_NS.cast_unsigned() / 2, &mut self.next_short);
        temporary.sort_by_key(|event| event.time_ns);
        temporary.iter().try_for_each(|event| emitter.event(event))?;
        self.now_ns += BUILD_NS;
        for (path, source_bytes) in latest {
            let object_bytes = 1000 + (source_bytes as f64 * self.rng.random_range(0.5..4.0)) as u64;
            let object =
                [b"build/".as_slice(), &path.escape_ascii().to_string().replace('/', "%").into_bytes()]
                    .concat();
            let number = self.number(&object);
            self.objects_bytes.insert(number, object_bytes);
            self.check_out(&object, Some(object_bytes), emitter)?;
        }
        let program_bytes = self.objects_bytes.values().sum::<u64>() / 2;
        self.check_out(b"build/program", Some(program_bytes), emitter)
    }
}
