use super::*;
use proptest::prelude::*;

fn zone(cylinders: u32, track_sectors: u32) -> Zone {
    Zone { cylinders, track_sectors, track_skew: 3, cylinder_skew: 7 }
}

#[test]
fn sectors_fill_tracks_then_heads_then_cylinders_and_skip_unused_places() {
    // Zone 0: cylinders 0 to 2 of 10 sectors; zone 1: 3 and 4 of 8. Two heads, one spare; cylinders 1 and 3 are unused.
    let layout = Layout::new(2, &[zone(3, 10), zone(2, 8)], 1, &[1..=1, 3..=3]);
    assert_eq!(layout.sectors(), 19 + 19 + 15);
    let at = |lbn| {
        let Place { cylinder, head, sector } = layout.place_of(Lbn(lbn));
        (cylinder, head, sector)
    };
    assert_eq!([at(0), at(9), at(10), at(18)], [(0, 0, 0), (0, 0, 9), (0, 1, 0), (0, 1, 8)]);
    assert_eq!([at(19), at(38), at(52)], [(2, 0, 0), (4, 0, 0), (4, 1, 6)]);
    assert_eq!(layout.sector_at(Place { cylinder: 0, head: 1, sector: 9 }), None, "a spare");
    assert_eq!(layout.sector_at(Place { cylinder: 1, head: 0, sector: 0 }), None, "unused");
    assert_eq!(layout.sector_at(Place { cylinder: 4, head: 0, sector: 8 }), None, "beyond the track");
    assert_eq!([layout.left_on_track(Lbn(8)), layout.left_on_track(Lbn(10))], [2, 9]);
}

#[test]
fn each_track_starts_later_than_the_one_before_by_its_skew() {
    let layout = Layout::new(2, &[zone(3, 10)], 0, &[]);
    let slot = |cylinder, head| layout.angle(Place { cylinder, head, sector: 0 }).slot;
    assert_eq!([slot(0, 0), slot(0, 1), slot(1, 0), slot(1, 1), slot(2, 0)], [0, 3, 0, 3, 0]);
    assert_eq!(layout.angle(Place { cylinder: 0, head: 1, sector: 8 }), Angle { slot: 1, of: 10 });
}

prop_compose! {
    fn layouts()(
        heads in 1u32..6,
        zones in prop::collection::vec((1u32..12, 2u32..20), 1..5),
        spares in 0u32..2,
        gaps in prop::collection::vec((0u32..8, 0u32..4), 0..4),
    ) -> Layout {
        let zones: Vec<Zone> = zones.into_iter().map(|(cylinders, sectors)| zone(cylinders, sectors)).collect();
        // The first cylinder stays in use.
        let (mut unused, mut from) = (Vec::new(), 1);
        for (skip, len) in gaps {
            unused.push(from + skip..=from + skip + len);
            from += skip + len + 1;
        }
        Layout::new(heads, &zones, spares.min(heads), &unused)
    }
}

proptest! {
    #[test]
    fn places_and_sectors_are_a_bijection(layout in layouts()) {
        let mut places = 0;
        for cylinder in 0..layout.cylinders() {
            for head in 0..layout.heads() {
                for sector in 0..layout.track_sectors(cylinder) {
                    let place = Place { cylinder, head, sector };
                    if let Some(lbn) = layout.sector_at(place) {
                        places += 1;
                        prop_assert!(lbn.0 < layout.sectors());
                        prop_assert_eq!(layout.place_of(lbn), place);
                    }
                }
            }
        }
        prop_assert_eq!(places, layout.sectors());
        for lbn in (0..layout.sectors()).map(Lbn) {
            prop_assert_eq!(layout.sector_at(layout.place_of(lbn)), Some(lbn));
        }
    }

    #[test]
    fn sectors_ascend_along_the_disk_and_runs_on_a_track_have_the_stated_length(layout in layouts()) {
        let places: Vec<Place> = (0..layout.sectors()).map(|lbn| layout.place_of(Lbn(lbn))).collect();
        prop_assert!(places.windows(2).all(|pair| pair[0] < pair[1]));
        for (lbn, place) in places.iter().enumerate() {
            let track = |p: &&Place| (p.cylinder, p.head) == (place.cylinder, place.head);
            let run = places[lbn..].iter().take_while(track).count() as u64;
            prop_assert_eq!(layout.left_on_track(Lbn(lbn as u64)), run);
        }
    }
}
