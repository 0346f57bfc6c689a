use super::*;
use crate::disk::library;

fn refusal(name: &str, from: &str, to: &str) -> String {
    let text = library::text_of(name).unwrap();
    assert!(text.contains(from), "{from} is not in the file");
    DiskParams::read("my.toml", &text.replacen(from, to, 1)).unwrap_err().to_string()
}

#[test]
fn every_bad_value_is_named_with_what_is_allowed() {
    let hp = |from, to| refusal("hp97560", from, to);
    assert_eq!(
        hp("value = 4002", "value = 4"),
        "my.toml: rotation.rpm: is 4; allowed: a number from 60 to 100000"
    );
    assert_eq!(
        hp("value = 19,", "value = 0,"),
        "my.toml: geometry.heads: is 0; allowed: a whole number from 1 to 256"
    );
    assert_eq!(
        hp("[[1962, 72, 8, 18]]", "[[1962, 72, 8]]"),
        "my.toml: geometry.zones: each zone is [cylinders, sectors of a track, track skew, cylinder skew]"
    );
    assert_eq!(
        hp("[[1962, 72, 8, 18]]", "[[1962, 72, 8, 72]]"),
        "my.toml: geometry.zones: is 72; allowed: a whole number from 0 to 71"
    );
    assert_eq!(
        hp("[1953, 1961]", "[1953, 1962]"),
        "my.toml: geometry.unused_cylinders: is 1962; allowed: a whole number from 1953 to 1961"
    );
    assert!(hp("\"two-pieces\"", "\"steps\"").ends_with("allowed: two-pieces, three-points"));
    assert!(hp("value = 8.00,", "value = 2.00,").contains("a seek over 384 cylinders would take less time"));
    assert_eq!(
        hp("value = 128,", "value = 0,"),
        "my.toml: electronics.buffer_kb: is 0; reading ahead and writing behind need a buffer"
    );
    assert!(
        hp("[queue]", "[queue]\ndepth = 4")
            .contains("queue.depth: is unknown; allowed: order, transfer_max_kb")
    );
    assert!(refusal("ssd", "value = 64,", "value = 0,").contains("flash.depth: is 0"));
    assert!(refusal("constant-hdd", "\"arrival\"", "\"chance\"").ends_with("allowed: arrival, elevator"));
    assert!(refusal("ssd", "kind = \"flash\"", "kind = \"tape\"").contains("kind: is \"tape\""));
}

#[test]
fn the_disks_have_the_sizes_of_their_geometries() {
    let size = |name| library::find(name).unwrap().unwrap().kind.size_bytes();
    assert_eq!(size("hp97560"), Some(1936 * 19 * 72 * 512));
    assert_eq!(size("wren4"), Some(1546 * 9 * 45 * 512));
    assert_eq!(size("dsp3105"), Some(2568 * 14 * 57 * 512));
    assert_eq!(size("constant-hdd"), None);
}

#[test]
fn skews_of_the_disks_that_come_along_hide_their_switches() {
    for name in library::names() {
        let DiskKind::Mechanical(mechanics) = library::find(name).unwrap().unwrap().kind else { continue };
        let media = &mechanics.media;
        for (cylinders, first, track_sectors) in media.layout.bands() {
            let heads = media.layout.heads();
            let arm = crate::disk::media::Arm { cylinder: *cylinders.start(), head: 0, at_ns: 0 };
            let begin = media.pass(arm, first, 1, 0, true).begin_ns;
            let sectors = u64::from(track_sectors * heads) + 1;
            let turns = (media.pass(arm, first, sectors, 0, true).arm.at_ns - begin) / media.rotation.turn_ns;
            // With one turn lost to each switch it would be twice as many.
            assert!(turns * 2 < i64::from(heads * 3), "{name}: {turns} turns for {heads} tracks");
        }
    }
}
