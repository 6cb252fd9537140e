//! Pure: seconds as people read them.

/// Two units at most: `0.4s`, `42s`, `3m20s`, `5h07m`, `9d4h`.
pub(super) fn human(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "-".to_owned();
    }
    if seconds < 10.0 {
        return format!("{seconds:.1}s");
    }
    let whole = seconds.round() as u64;
    let (minutes, hours, days) = (whole / 60, whole / 3_600, whole / 86_400);
    match whole {
        0..60 => format!("{whole}s"),
        60..3_600 => format!("{minutes}m{:02}s", whole % 60),
        3_600..86_400 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn durations_are_short() {
        let shown = |seconds| human(seconds);
        assert_eq!(shown(0.0), "0.0s");
        assert_eq!(shown(0.44), "0.4s");
        assert_eq!(shown(9.99), "10.0s");
        assert_eq!(shown(59.4), "59s");
        assert_eq!(shown(59.6), "1m00s");
        assert_eq!(shown(200.0), "3m20s");
        assert_eq!(shown(18_420.0), "5h07m");
        assert_eq!(shown(792_000.0), "9d4h");
    }
}
