//! `Layout`: which cylinder, head and sector hold a logical sector, and where on the circle that sector passes the head.
//!
//! Cylinders are numbered from the outside. Logical sectors fill a track, then the next track of the cylinder, then the next
//! cylinder. The last `spare_sectors` of each cylinder and whole unused cylinders hold no logical sector. Each track starts
//! later on the circle than the one before, by a skew that gives the disk time to switch.
//!
//! Invariants: [`Layout::place_of`] and [`Layout::sector_at`] are inverse to each other; zones cover all cylinders. Callers:
//! `media`, `params`.

use std::ops::RangeInclusive;

/// A logical sector: what the host addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Lbn(pub u64);

/// A physical sector.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Place {
    /// Cylinder, from the outside.
    pub cylinder: u32,
    /// Head, and so the track of the cylinder.
    pub head: u32,
    /// Sector of the track.
    pub sector: u32,
}

/// Adjacent cylinders with the same number of sectors on a track.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zone {
    /// Number of cylinders.
    pub cylinders: u32,
    /// Sectors of each track.
    pub track_sectors: u32,
    /// How much later than its predecessor in the cylinder a track starts, in sectors.
    pub track_skew: u32,
    /// How much later than the last track of the cylinder before a cylinder's first track starts, in sectors.
    pub cylinder_skew: u32,
}

/// Where a sector lies on its circle: number `slot` of `of`, from a line that is the same on all tracks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Angle {
    /// Number from 0.
    pub slot: u32,
    /// Sectors of the circle.
    pub of: u32,
}

/// Adjacent cylinders in use, within one zone.
#[derive(Clone, Debug)]
struct Band {
    zone: Zone,
    /// First cylinder of the zone, from which skews count.
    zone_start: u32,
    cylinders: RangeInclusive<u32>,
    first: u64,
    cylinder_sectors: u64,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub struct Layout {
    heads: u32,
    bands: Vec<Band>,
    sectors: u64,
    cylinders: u32,
}

impl Layout {
    /// Lays out a disk. `unused` are cylinders without logical sectors, ascending and disjoint.
    ///
    /// # Panics
    /// If a zone has no sector in a cylinder; `params` checks its files before.
    #[must_use]
    pub fn new(heads: u32, zones: &[Zone], spare_sectors: u32, unused: &[RangeInclusive<u32>]) -> Self {
        let mut layout = Self { heads, bands: Vec::new(), sectors: 0, cylinders: 0 };
        for zone in zones {
            let zone_start = layout.cylinders;
            let zone_end = zone_start + zone.cylinders;
            let mut from = zone_start;
            for gap in unused.iter().filter(|gap| *gap.end() >= zone_start && *gap.start() < zone_end) {
                layout.add_band(zone, zone_start, from..(*gap.start()).max(from), spare_sectors);
                from = (gap.end() + 1).min(zone_end);
            }
            layout.add_band(zone, zone_start, from..zone_end, spare_sectors);
            layout.cylinders = zone_end;
        }
        layout
    }

    fn add_band(
        &mut self,
        zone: &Zone,
        zone_start: u32,
        cylinders: std::ops::Range<u32>,
        spare_sectors: u32,
    ) {
        if cylinders.is_empty() {
            return;
        }
        let all = u64::from(zone.track_sectors) * u64::from(self.heads);
        let cylinder_sectors = all.checked_sub(u64::from(spare_sectors)).filter(|n| *n > 0);
        let cylinder_sectors = cylinder_sectors.expect("a cylinder has more sectors than spares");
        self.bands.push(Band {
            zone: *zone,
            zone_start,
            cylinders: cylinders.start..=cylinders.end - 1,
            first: self.sectors,
            cylinder_sectors,
        });
        self.sectors += cylinder_sectors * u64::from(cylinders.end - cylinders.start);
    }

    /// Number of logical sectors.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Number of cylinders, unused ones included.
    #[must_use]
    pub fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// Number of heads.
    #[must_use]
    pub fn heads(&self) -> u32 {
        self.heads
    }

    /// The place of a logical sector; a number beyond the end counts as the last one.
    #[must_use]
    pub fn place_of(&self, lbn: Lbn) -> Place {
        let lbn = lbn.0.min(self.sectors - 1);
        let band = &self.bands[self.bands.partition_point(|band| band.first <= lbn) - 1];
        let within = lbn - band.first;
        let in_cylinder = within % band.cylinder_sectors;
        let track_sectors = u64::from(band.zone.track_sectors);
        Place {
            cylinder: band.cylinders.start() + (within / band.cylinder_sectors) as u32,
            head: (in_cylinder / track_sectors) as u32,
            sector: (in_cylinder % track_sectors) as u32,
        }
    }

    /// The logical sector at a place; `None` for spares, unused cylinders, and places that are not on the disk.
    #[must_use]
    pub fn sector_at(&self, place: Place) -> Option<Lbn> {
        let band = self.band_at(place.cylinder).filter(|band| band.cylinders.contains(&place.cylinder))?;
        if place.head >= self.heads || place.sector >= band.zone.track_sectors {
            return None;
        }
        let in_cylinder =
            u64::from(place.head) * u64::from(band.zone.track_sectors) + u64::from(place.sector);
        let before = u64::from(place.cylinder - band.cylinders.start()) * band.cylinder_sectors;
        (in_cylinder < band.cylinder_sectors).then(|| Lbn(band.first + before + in_cylinder))
    }

    /// The angle at which a sector begins.
    #[must_use]
    pub fn angle(&self, place: Place) -> Angle {
        let Some(band) = self.band_at(place.cylinder) else { return Angle { slot: 0, of: 1 } };
        let zone = &band.zone;
        let per_cylinder =
            u64::from(self.heads - 1) * u64::from(zone.track_skew) + u64::from(zone.cylinder_skew);
        let skew = u64::from(place.cylinder.saturating_sub(band.zone_start)) * per_cylinder
            + u64::from(place.head) * u64::from(zone.track_skew);
        let of = zone.track_sectors;
        Angle { slot: ((u64::from(place.sector) + skew) % u64::from(of)) as u32, of }
    }

    /// How many logical sectors, from this one on, lie on the same track.
    #[must_use]
    pub fn left_on_track(&self, lbn: Lbn) -> u64 {
        let place = self.place_of(lbn);
        let Some(band) = self.band_at(place.cylinder) else { return 1 };
        let in_cylinder = (lbn.0 - band.first) % band.cylinder_sectors;
        let track_sectors = u64::from(band.zone.track_sectors);
        let track_end = (in_cylinder / track_sectors + 1) * track_sectors;
        track_end.min(band.cylinder_sectors) - in_cylinder
    }

    /// Sectors of a track of this cylinder; 0 for an unused one before the first band.
    #[must_use]
    pub fn track_sectors(&self, cylinder: u32) -> u32 {
        self.band_at(cylinder).map_or(0, |band| band.zone.track_sectors)
    }

    /// The bands of cylinders in use, each with its first logical sector and its sectors on a track.
    pub fn bands(&self) -> impl Iterator<Item = (RangeInclusive<u32>, Lbn, u32)> {
        self.bands.iter().map(|band| (band.cylinders.clone(), Lbn(band.first), band.zone.track_sectors))
    }

    /// The last band that starts at or before a cylinder.
    fn band_at(&self, cylinder: u32) -> Option<&Band> {
        let after = self.bands.partition_point(|band| *band.cylinders.start() <= cylinder);
        self.bands.get(after.checked_sub(1)?)
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
