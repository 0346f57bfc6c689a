use super::keys::Action;
use super::*;
use crate::samples::{SEGMENTS, Sample, tick, tracker};
use crate::tick::{Stalls, Tick, Victim, Would};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

const NOW_S: u64 = 1_000_000;

/// A minute of a busy volume.
fn busy() -> State {
    let tracker = tracker(NOW_S as i64 - 60);
    let mut state = State::default();
    for n in 0..=60 {
        let second = NOW_S - 60 + n;
        let wave = n * n % 23;
        let sample = Sample {
            second,
            user_mb: 120 * n + wave,
            log_mb: 170 * n + wave,
            moved_mb: 30 * n,
            metadata_mb: 9 * n,
            used_mb: 600 + n,
            requests: 900 * n + 40 * wave,
        };
        let victim = |serial, segment, live_bytes| Victim {
            serial,
            segment,
            live_bytes,
            age_ms: 600_000,
            why: "policy".to_owned(),
        };
        let mut utilisation = [3, 0, 12, 30, 44, 70, 120, 180, 90, 118];
        utilisation[1] += n;
        let mut tick = Tick {
            map: tracker.since(state.map.revision(), second as i64),
            utilisation,
            segments_in_use: utilisation.iter().sum(),
            taken: 2 * n,
            victims: vec![victim(2 * n, n + 30, 200_000), victim(2 * n + 1, n + 100, 900_000)],
            stalls: Stalls {
                count: n / 30,
                total_ns: n / 30 * 12_000_000,
                longest_ns: 12_000_000,
                p50_ns: Some(10_000_000),
                p99_ns: Some(12_000_000),
            },
            would: vec![Would {
                policy: "greedy".to_owned(),
                victims: (0..16).map(|n| victim(0, 5 * n + 1, 100_000 * n as u32)).collect(),
            }],
            ..tick(&sample)
        };
        tick.counters.cleaned = 2 * n;
        tick.counters.checkpoints = n / 10;
        tick.marks.ready = 60 - n / 2 % 50;
        state.add(tick).unwrap();
    }
    state
}

fn draw(screen: &mut Screen, state: &State, columns: u16, lines: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
    terminal.draw(|frame| screen.draw(state, "live", frame.buffer_mut())).unwrap();
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> String {
    let area = buffer.area;
    let line = |y| -> String { (0..area.width).map(|x| buffer[(x, y)].symbol()).collect() };
    (0..area.height).map(|y| format!("{}\n", line(y).trim_end())).collect()
}

/// `FIRN_GOLDEN=1 cargo test` writes the files anew.
fn assert_golden(name: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
    if std::env::var_os("FIRN_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, golden, "{} differs", path.display());
}

fn plain() -> Screen {
    Screen::new(Theme { has_colour: false })
}

#[test]
fn the_screen_is_as_it_was_accepted_at_both_sizes() {
    let state = busy();
    for (columns, lines) in [(80, 24), (120, 40)] {
        let mut screen = plain();
        screen.cursor = 10;
        let shown = text(&draw(&mut screen, &state, columns, lines));
        assert_golden(&format!("screen-{columns}x{lines}.txt"), &shown);
        screen.compared = Some(0);
        let compared = text(&draw(&mut screen, &state, columns, lines));
        assert_golden(&format!("compared-{columns}x{lines}.txt"), &compared);
    }
}

#[test]
fn nothing_is_cut_and_every_part_is_there_at_both_sizes() {
    let state = busy();
    for (columns, lines) in [(80, 24), (120, 40), (200, 60)] {
        let shown = text(&draw(&mut plain(), &state, columns, lines));
        assert!(!shown.contains('…'), "{shown}");
        for part in [
            "/mnt/data",
            "writable",
            "live",
            "full ",
            "reserve 12, low 20, high 28, idle 80",
            "users MB/s",
            "cleaner MB/s",
            "metadata MB/s",
            "write ampl.",
            "clean segs",
            "1000 segs",
            "segments by live share",
            "victims by live share",
            "requests ",
            "wait",
            "events",
            "q quit",
        ] {
            assert!(shown.contains(part), "{part} at {columns}x{lines}:\n{shown}");
        }
    }
}

#[test]
fn a_small_terminal_gets_a_line_and_no_panic() {
    let state = busy();
    for (columns, lines) in [(1, 1), (79, 24), (80, 23), (10, 100)] {
        draw(&mut plain(), &state, columns, lines);
    }
    assert!(text(&draw(&mut plain(), &state, 79, 24)).contains("80 x 24 are needed"));
    assert!(text(&draw(&mut plain(), &State::default(), 80, 24)).contains("waiting"));
}

#[test]
fn without_colours_no_cell_has_one_and_with_them_the_characters_are_the_same() {
    let state = busy();
    let (mut grey, mut coloured) = (plain(), Screen::new(Theme { has_colour: true }));
    let without = draw(&mut grey, &state, 80, 24);
    let with = draw(&mut coloured, &state, 80, 24);
    assert!(without.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    assert!(with.content.iter().any(|cell| cell.fg != Color::Reset));
    assert_eq!(text(&without), text(&with));
}

#[test]
fn the_map_marks_heads_victims_damage_and_age() {
    let state = busy();
    let mut screen = plain();
    let shown = text(&draw(&mut screen, &state, 120, 40));
    let row = shown.lines().nth(9).unwrap();
    let cells: Vec<char> = row.chars().collect();
    assert_eq!((cells[3], cells[4], cells[7], cells[20]), ('3', '>', '!', 'o'), "{row}");
    assert_eq!(cells[90], 'X', "segment 90 was just taken: {row}");
    screen.shows_age = true;
    let ages = text(&draw(&mut screen, &state, 120, 40));
    let old: Vec<char> = ages.lines().nth(9).unwrap().chars().collect();
    assert_eq!((old[0], old[1], old[18]), ('2', '2', '3'), "60 s, 97 s, 726 s old");
}

#[test]
fn the_cursor_moves_by_cells_and_stays_on_the_volume() {
    let state = busy();
    let mut screen = plain();
    draw(&mut screen, &state, 80, 24);
    assert_eq!(screen.cells, (80, 3));
    let mut press = |code| {
        let action = screen.key(KeyEvent::new(code, KeyModifiers::NONE), SEGMENTS);
        (action, screen.cursor)
    };
    assert_eq!(press(KeyCode::Right), (Action::Draw, 3));
    assert_eq!(press(KeyCode::Down), (Action::Draw, 243));
    assert_eq!(press(KeyCode::End), (Action::Draw, 999));
    assert_eq!(press(KeyCode::Down), (Action::Draw, 999));
    assert_eq!(press(KeyCode::Home), (Action::Draw, 0));
    assert_eq!(press(KeyCode::Left), (Action::Draw, 0));
    assert_eq!(press(KeyCode::Enter), (Action::Open(0), 0));
    assert_eq!(press(KeyCode::Char('q')).0, Action::Quit);
    assert_eq!(screen.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL), 9), Action::Interrupt);
}

#[test]
fn an_opened_segment_shows_its_owners_and_control_characters_of_names_do_no_harm() {
    let state = busy();
    let mut screen = plain();
    let owner = |path: &str| Owner { path: Some(path.to_owned()), ino: 5, live_bytes: 65536 };
    let mut owners = vec![owner("/a/\u{1b}[2Jname")];
    owners.extend((0..50).map(|n| owner(&format!("/file{n}"))));
    screen.opened = Some((7, Owners::Found(owners)));
    let shown = text(&draw(&mut screen, &state, 80, 24));
    assert!(shown.contains("64 KiB  /a/?[2Jname"), "{shown}");
    assert!(shown.contains("and 46 more"), "{shown}");
    screen.opened = Some((7, Owners::Found(vec![Owner { path: None, ino: 77, live_bytes: 1 }])));
    assert!(text(&draw(&mut screen, &state, 80, 24)).contains("inode 77"));
}

#[test]
fn the_compared_policy_goes_round_and_is_what_the_feed_asks() {
    let mut screen = plain();
    let mut seen = Vec::new();
    for _ in 0..keys::POLICIES.len() {
        screen.key(KeyEvent::new(KeyCode::Char('g'), KeyModifiers::NONE), 1);
        seen.extend(screen.policy());
    }
    assert_eq!(seen, keys::POLICIES);
    screen.key(KeyEvent::new(KeyCode::Char('g'), KeyModifiers::NONE), 1);
    assert_eq!(screen.policy(), None);
}

#[test]
fn the_help_is_not_cut_and_names_every_sign_of_the_map() {
    let state = busy();
    let mut screen = plain();
    screen.shows_help = true;
    let shown = text(&draw(&mut screen, &state, 80, 24));
    assert!(!shown.contains('…'), "{shown}");
    for (key, text) in keys::HELP {
        assert!(shown.contains(&format!("{key:<12} {text}")), "{key} {text}: {shown}");
    }
    assert_eq!(screen.key(KeyEvent::new(KeyCode::Char('s'), KeyModifiers::NONE), 1), Action::Step);
}

#[test]
fn a_simulation_has_no_requests_a_frozen_volume_says_so_and_failures_are_not_cut() {
    let mut state = busy();
    let last = state.last.clone().unwrap();
    let revision = state.map.revision();
    let map = crate::tick::MapUpdate { from: revision, revision, ..Default::default() };
    let failing = |requests, errors| crate::tick::Requests {
        name: "removexattr".to_owned(),
        requests,
        errors,
        busy_ns: requests * 999_000_000,
        ..Default::default()
    };
    let tick = Tick { requests: vec![failing(1, 0)], map, ..last };
    state.add(tick.clone()).unwrap();
    let now_ns = tick.now_ns + 1_000_000_000;
    state.add(Tick { now_ns, is_frozen: true, requests: vec![failing(100, 99)], ..tick.clone() }).unwrap();
    let shown = text(&draw(&mut plain(), &state, 120, 40));
    assert!(shown.contains("removexattr    99/s 999 ms 99 err"), "{shown}");
    assert!(shown.contains("/mnt/data  FROZEN: changes wait for firn thaw"), "{shown}");
    state.add(Tick { now_ns: now_ns + 1, requests: Vec::new(), ..tick }).unwrap();
    for (columns, lines) in [(80, 24), (120, 40)] {
        let shown = text(&draw(&mut plain(), &state, columns, lines));
        assert!(shown.contains("not served through a mount") && !shown.contains("0/s"), "{shown}");
    }
}

#[test]
fn a_policy_without_an_answer_says_why() {
    let state = busy();
    let mut screen = Screen { compared: Some(4), unanswered: "not recorded", ..plain() };
    assert!(text(&draw(&mut screen, &state, 80, 24)).contains("not recorded"));
}
