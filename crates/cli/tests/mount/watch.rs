//! `firn watch` on a real mount: its numbers, its recording, its page, and the terminal after it.

use crate::common::{Kind, Mount, can_mount, eventually, firn, firn_ok, pattern, shell};
use crate::schema;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(schema::parse).collect()
}

fn start(words: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firn"));
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A volume at rest whose segments differ.
fn volume() -> Mount {
    let mount = Mount::with(Kind::Image, "128M", &[]);
    for n in 0..20 {
        fs::write(mount.path(&format!("file{n}")), pattern(n, 1 << 20)).unwrap();
    }
    mount.sync();
    for n in (0..20).step_by(3) {
        fs::remove_file(mount.path(&format!("file{n}"))).unwrap();
    }
    mount.sync();
    mount
}

fn stat(mount: &Mount) -> Value {
    serde_json::from_str(&firn_ok(&["stat", mount.mnt.to_str().unwrap(), "--json"])).unwrap()
}

#[test]
fn ticks_follow_what_is_written_and_at_rest_they_say_what_stat_says() {
    if !can_mount() {
        return;
    }
    let mount = volume();
    let mnt = mount.mnt.to_str().unwrap();
    let watch =
        start(&["watch", mnt, "--json", "--interval", "0.3", "--count", "6", "--policy", "greedy,fifo"]);
    std::thread::sleep(std::time::Duration::from_millis(500));
    fs::write(mount.path("more"), pattern(77, 5 << 20)).unwrap();
    mount.sync();
    let output = watch.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let ticks = objects(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(ticks.len(), 6);
    let user = |tick: &Value| tick["user_bytes"].as_u64().unwrap();
    assert_eq!(user(&ticks[5]) - user(&ticks[0]), 5 << 20);
    let by_rates: f64 = ticks
        .iter()
        .map(|t| {
            t["rates"]["user_bytes_per_s"].as_f64().unwrap() * t["rates"]["interval_ms"].as_f64().unwrap()
                / 1e3
        })
        .sum();
    assert!((by_rates - f64::from(5 << 20)).abs() < 1.0, "{by_rates}");
    assert!(ticks.iter().any(|tick| !tick["latency"].as_array().unwrap().is_empty()));
    assert_eq!(ticks[0]["would_take"][0]["policy"], "greedy");
    let (last, stat) = (&ticks[5], stat(&mount));
    for name in ["segments_in_use", "live_bytes", "utilisation_histogram"] {
        assert_eq!(last[name], stat["log"][name], "{name}");
    }
    assert_eq!(last["free_bytes"], stat["space"]["free_bytes"]);
    let writes = last["by_request"].as_array().unwrap().iter().find(|kind| kind["request"] == "write");
    let (p50, p99) = (&writes.unwrap()["p50_ms"], &writes.unwrap()["p99_ms"]);
    assert!(p50.as_f64().unwrap() > 0.0 && p99.as_f64() >= p50.as_f64(), "{writes:?}");
    let lines = firn_ok(&["watch", mnt, "--interval", "0.1", "--count", "2"]);
    assert_eq!(lines.lines().count(), 4, "{lines}");
    assert!(lines.lines().all(|line| line.len() <= 79), "{lines}");
}

#[test]
fn a_frozen_volume_says_so_until_it_thaws() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "64M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    let frozen = || objects(&firn_ok(&["watch", mnt, "--json", "--count", "1"]))[0]["frozen"].clone();
    assert_eq!(frozen(), false);
    firn_ok(&["freeze", mnt]);
    assert_eq!(frozen(), true);
    assert!(firn_ok(&["watch", mnt, "--count", "1"]).trim_end().ends_with(" frozen"));
    firn_ok(&["thaw", mnt]);
    assert_eq!(frozen(), false);
}

#[test]
fn a_recording_shows_the_same_again_and_becomes_a_page() {
    if !can_mount() {
        return;
    }
    let mount = volume();
    let mnt = mount.mnt.to_str().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (file, page) = (path("day.fww"), path("day.html"));
    let live = firn_ok(&["watch", mnt, "--json", "--interval", "0.1", "--count", "4", "--record", &file]);
    let again = firn_ok(&["watch", &file, "--json"]);
    assert_eq!(objects(&live), objects(&again));
    firn_ok(&["watch", &file, "--html", &page]);
    let text = fs::read_to_string(&page).unwrap();
    assert_eq!(text.matches("\"serial\":").count(), 4);
    for words in
        [&["watch", &file, "--html", &page] as &[&str], &["watch", mnt, "--record", &file, "--count", "1"]]
    {
        let refused = String::from_utf8(firn(words).stderr).unwrap();
        assert!(refused.contains("File exists"), "{refused}");
    }
    let inside = mount.path("day.fww");
    let refused =
        String::from_utf8(firn(&["watch", mnt, "--record", inside.to_str().unwrap()]).stderr).unwrap();
    assert!(refused.contains("is on the mount that is watched"), "{refused}");
    fs::write(&file, &fs::read(&file).unwrap()[..20]).unwrap();
    assert!(!firn(&["watch", &file, "--json"]).status.success(), "nothing is left of it");
}

#[test]
fn a_watch_ends_with_the_mount() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "64M", &[]);
    let mut watch = start(&["watch", mount.mnt.to_str().unwrap(), "--interval", "0.1"]);
    let mut line = String::new();
    BufReader::new(watch.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    mount.umount();
    let output = watch.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && told.contains("was unmounted"), "{told}");
    mount.mount_image(&[]);
}

#[test]
fn volumes_without_a_log_are_refused_in_words() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Fast, "64M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    for words in
        [&["watch", mnt, "--count", "1"][..], &["scrub", mnt], &["trim", mnt], &["clean", mnt, "--once"]]
    {
        let refused = firn(words);
        let told = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(4) && told.contains("has no log"), "{words:?}: {told}");
    }
}

fn get(url: &str, path: &str) -> String {
    let (address, token) = url.trim_start_matches("http://").split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /{token}{path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// The page in a real browser, if there is one: what it shows after it has run.
fn in_browser(url: &str) -> Option<String> {
    let browser = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    });
    let Some(browser) = browser else {
        eprintln!("SKIPPED: NOT TESTED: no browser to show the page");
        return None;
    };
    let home = tempfile::tempdir().unwrap();
    let words = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--dump-dom"];
    let profile = format!("--user-data-dir={}", home.path().display());
    let output = Command::new(browser).args(words).arg(profile).arg(url).output().unwrap();
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_page_shows_the_numbers_of_stat_in_a_browser_too() {
    if !can_mount() {
        return;
    }
    let mount = volume();
    let mut server = start(&["watch", mount.mnt.to_str().unwrap(), "--web", "--interval", "0.2"]);
    let mut url = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
    let url = url.trim();
    let frames = || serde_json::from_str::<Value>(&get(url, "frames")).unwrap();
    eventually("a frame is there", || frames().as_array().is_some_and(|frames| !frames.is_empty()));
    let stat = stat(&mount);
    assert_eq!(frames()[0]["utilisation"], stat["log"]["utilisation_histogram"]);
    let shown = in_browser(url);
    server.kill().unwrap();
    server.wait().unwrap();
    let Some(shown) = shown else { return };
    let counts: Vec<String> =
        stat["log"]["utilisation_histogram"].as_array().unwrap().iter().map(ToString::to_string).collect();
    assert!(shown.contains(&format!("<p id=\"utilisation-text\">{}</p>", counts.join(" "))), "{shown}");
    let title = format!("{} segments, {} in use", stat["log"]["segments"], stat["log"]["segments_in_use"]);
    assert!(shown.contains(&title), "{title}: {shown}");
    assert!(shown.contains(&format!(">{}</h1>", mount.mnt.display())), "{shown}");
}

/// A replay with a script that does what a person does; the script may run because it has the page's own nonce.
fn with_keys(page: &str) -> String {
    let nonce = page.split_once("nonce=\"").unwrap().1.split_once('"').unwrap().0;
    let keys = include_str!("page_keys.js");
    // Nobody looks at a headless browser, so it draws no pictures; a timer takes their place.
    let pictures = "window.requestAnimationFrame = (draw) => setTimeout(() => draw(performance.now()), 16);";
    let script = |text: &str| format!("<script nonce=\"{nonce}\">{text}</script>");
    let page = page.replace("<body>", &format!("<body>{}", script(pictures)));
    page.replace("</body>", &format!("{}</body>", script(keys)))
}

#[test]
fn the_buttons_of_the_page_do_what_they_say() {
    if !can_mount() {
        return;
    }
    let mount = volume();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (file, page) = (path("day.fww"), path("day.html"));
    let mnt = mount.mnt.to_str().unwrap();
    firn_ok(&["watch", mnt, "--json", "--interval", "0.3", "--count", "5", "--record", &file]);
    firn_ok(&["watch", &file, "--html", &page]);
    let text = fs::read_to_string(&page).unwrap();
    fs::write(&page, with_keys(&text)).unwrap();
    let Some(shown) = in_browser(&format!("file://{page}")) else { return };
    let saw = shown.split_once("id=\"saw\">").unwrap_or_else(|| panic!("the script ended: {shown}")).1;
    let saw: Value = serde_json::from_str(saw.split_once("</script>").unwrap().0).unwrap();
    assert_eq!(saw["paused"], serde_json::json!(["Go on", "PAUSED"]), "{saw}");
    assert_eq!(saw["goesOn"], "Pause", "{saw}");
    let serial = |name: &str| saw[name].as_u64().unwrap();
    assert_eq!(serial("last") - serial("first"), 4, "scrubbed over all five frames: {saw}");
    assert_eq!((serial("stays"), serial("slow")), (serial("first"), serial("first")), "{saw}");
    assert_eq!(serial("fast"), serial("last"), "{saw}");
    let labels = serde_json::json!(["reserve", "low", "high", "idle"]);
    assert_eq!(saw["readable"], labels, "no line of a plot crosses a label: {saw}");
    assert!(saw["about"].as_str().unwrap().starts_with("segment 0: "), "{saw}");
    let csv: Vec<&str> = saw["saved"]["firn-watch.csv"].as_str().unwrap().lines().collect();
    assert_eq!(csv.len(), 6, "a title and five lines: {csv:?}");
    let columns = csv[0].split(',').count();
    assert!(columns > 10 && csv.iter().all(|line| line.split(',').count() == columns), "{csv:?}");
    let segments = stat(&mount)["log"]["segments"].as_u64().unwrap();
    let svg = saw["saved"]["firn-watch.svg"].as_str().unwrap();
    assert!(svg.starts_with("<svg") && svg.contains(mnt), "{svg:.300}");
    assert_eq!(svg.matches("<rect").count() as u64, segments + 1, "one for each segment, and the ground");
}

#[test]
fn markup_in_a_name_is_text_on_the_page() {
    if !can_mount() {
        return;
    }
    let mount = volume();
    mount.umount();
    let directory = tempfile::tempdir().unwrap();
    let attack = "<img src=x onerror=document.body.id='owned'>";
    let mnt = directory.path().join(attack);
    fs::create_dir(&mnt).unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (file, page) = (path("day.fww"), path("day.html"));
    let mnt = mnt.to_str().unwrap();
    firn_ok(&["mount", mount.image.to_str().unwrap(), mnt]);
    firn_ok(&["watch", mnt, "--json", "--interval", "0.1", "--count", "2", "--record", &file]);
    firn_ok(&["umount", mnt]);
    firn_ok(&["watch", &file, "--html", &page]);
    let Some(shown) = in_browser(&format!("file://{page}")) else { return };
    let title = shown.split_once("id=\"name\">").unwrap().1.split_once("</h1>").unwrap().0;
    assert!(title.ends_with("&lt;img src=x onerror=document.body.id='owned'&gt;"), "{title}");
    assert!(!shown.contains("<img") && !shown.contains("id=\"owned\""), "{shown:.2000}");
}

/// Runs the display on a terminal of its own and types `keys`; the terminal's settings before and after, and the exit code.
fn on_terminal(mnt: &Path, keys: &str) -> (String, String, String) {
    let directory = tempfile::tempdir().unwrap();
    let firn = env!("CARGO_BIN_EXE_firn");
    let inner = format!(
        "stty cols 80 rows 24; stty -g > before; {firn} watch {}; echo $? > code; stty -g > after",
        mnt.display()
    );
    fs::write(directory.path().join("inner.sh"), inner).unwrap();
    let outer =
        format!("(sleep 2; printf '{keys}'; sleep 1) | TERM=xterm script -qec 'sh inner.sh' screen > out");
    shell(directory.path(), &outer);
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    assert!(read("out").contains("segs"), "it drew a map: {}", read("out"));
    (read("before"), read("after"), read("code").trim().to_owned())
}

#[test]
fn the_terminal_is_as_it_was_after_quitting_and_after_an_interrupt() {
    if !can_mount() {
        return;
    }
    if !Command::new("script").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: NOT TESTED: script(1) is missing");
        return;
    }
    let mount = volume();
    for (keys, code) in [("q", "0"), ("\\003", "130")] {
        let (before, after, ended) = on_terminal(&mount.mnt, keys);
        assert_eq!(before, after, "{keys}");
        assert_eq!(ended, code, "{keys}");
    }
}
