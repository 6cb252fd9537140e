//! A stand-in for the `base2histogram` crate: the part of its interface that openraft calls, with
//! nothing behind it.
//!
//! openraft counts its batches in histograms that only its feature `runtime-stats` shows, and that
//! feature is off here. The real library builds its tables when the first histogram is made: 28 MiB
//! of memory and 60 ms, more than the broker's whole budget for idle memory and most of the one for
//! its start; and each Raft instance keeps fifteen histograms. The root `Cargo.toml` puts this in
//! its place. It goes when openraft makes the histograms part of the feature.

use std::fmt;
use std::marker::PhantomData;

/// Records nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram<T = ()>(PhantomData<T>);

impl<T> Default for Histogram<T> {
    fn default() -> Self {
        Histogram::new()
    }
}

impl<T> Histogram<T> {
    /// An empty histogram, which it stays.
    #[must_use]
    pub const fn new() -> Self {
        Histogram(PhantomData)
    }

    /// Does nothing.
    pub fn record(&mut self, _value: u64) {}

    /// Does nothing.
    pub fn record_n(&mut self, _value: u64, _count: u64) {}

    /// No samples.
    #[must_use]
    pub fn percentile_stats(&self) -> PercentileStats {
        PercentileStats::default()
    }
}

/// Percentiles of no samples: all 0.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PercentileStats {
    pub samples: u64,
    pub p0_1: u64,
    pub p1: u64,
    pub p5: u64,
    pub p10: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p99_9: u64,
}

impl fmt::Display for PercentileStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[not recorded]")
    }
}

/// Draws nothing.
#[derive(Debug, Clone, Default)]
pub struct AsciiChart;

impl AsciiChart {
    /// An empty chart.
    #[must_use]
    pub fn new() -> Self {
        AsciiChart
    }

    /// Adds nothing. The name must be `add`: it is what openraft calls.
    #[allow(clippy::should_implement_trait)]
    #[must_use]
    pub fn add(self, _name: &str, _histogram: Histogram) -> Self {
        self
    }

    /// Shows nothing.
    #[must_use]
    pub fn detailed(&self) -> impl fmt::Display {
        ""
    }
}
