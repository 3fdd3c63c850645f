//! What a terminal gets: a screen with keys, a pager, colours, lines that fit.

#[path = "../common/after.rs"]
mod after;
#[path = "../common/mod.rs"]
mod common;
mod pty;

use common::Fixture;
use pty::Terminal;

const WIDE: (u16, u16) = (100, 24);
const PLAIN: [(&str, &str); 1] = [("NO_COLOR", "1")];

/// `top --live` shows functions, sorts them by keys, descends into one and comes back; q gives the
/// screen back as it was.
#[test]
fn live() {
    let fixture = Fixture::new();
    let mut terminal = Terminal::start(&fixture, &["top", "--live"], WIDE, &[]);
    terminal.shows("cyclesv");
    terminal.shows("hot");
    assert!(!terminal.is_restored());
    terminal.press("s");
    terminal.shows("samplesv");
    terminal.press("n");
    terminal.shows("functionv");
    terminal.press("r");
    terminal.shows("function^");
    terminal.press("c");
    terminal.shows("cyclesv");
    terminal.press("\r");
    terminal.shows("value profile");
    terminal.press("\u{1b}[D");
    terminal.shows("percent");
    terminal.press("\t");
    terminal.shows("images");
    terminal.press("q");
    let (status, _) = terminal.end();
    assert!(status.success() && terminal.is_restored());
}

/// What is written while it is shown appears.
#[test]
fn live_changes() {
    let fixture = Fixture::new();
    let mut terminal = Terminal::start(&fixture, &["-i", ".", "top", "--live"], WIDE, &[]);
    terminal.shows("hot");
    let before = terminal.screen();
    after::write_after(&fixture);
    terminal.until("change", |screen| {
        screen.contains("hot") && screen != before
    });
    // ^C leaves as well.
    terminal.press("\u{3}");
    let (status, _) = terminal.end();
    assert!(status.success() && terminal.is_restored());
}

/// A terminal that becomes narrow has fewer columns, and one that becomes wide more.
#[test]
fn resized() {
    let fixture = Fixture::new();
    let mut terminal = Terminal::start(&fixture, &["browse"], WIDE, &[]);
    terminal.shows("samples");
    terminal.resize(50, 10);
    terminal.until("narrow table", |screen| {
        screen.contains("percent") && !screen.contains("samples")
    });
    terminal.resize(90, 20);
    terminal.shows("samples");
    terminal.press("\r");
    terminal.shows("value profile");
    terminal.press("q");
    assert!(terminal.end().0.success());
}

/// Whoever loses the terminal ends, and waits for no more keys.
#[test]
fn gone() {
    let fixture = Fixture::new();
    let mut terminal = Terminal::start(&fixture, &["browse"], WIDE, &[]);
    terminal.shows("samples");
    assert!(!terminal.hang_up().success());
}

/// A terminal that only prints gets one table after the other, until it is interrupted.
#[test]
fn dumb() {
    let fixture = Fixture::new();
    let dumb = [("TERM", "dumb")];
    let mut terminal = Terminal::start(&fixture, &["top", "--live"], WIDE, &dumb);
    terminal.until("second table", |screen| {
        screen.matches("percent").count() > 1
    });
    terminal.press("\u{3}");
    let (status, written) = terminal.end();
    assert!(!status.success());
    assert!(!written.contains('\u{1b}'), "{written:?}");
    let mut terminal = Terminal::start(&fixture, &["browse"], WIDE, &dumb);
    assert_eq!(terminal.end().0.code(), Some(2));
}

/// On a terminal a report goes through the pager that is named, unless there is to be none.
#[test]
fn pager() {
    let fixture = Fixture::new();
    let run = |args: &[&str], variables: &[(&str, &str)]| {
        let mut terminal = Terminal::start(&fixture, args, WIDE, variables);
        let (status, written) = terminal.end();
        assert!(status.success(), "{written}");
        assert!(written.contains("hot"), "{written}");
        written.contains("paged: ")
    };
    let pager = ("VCPI_PAGER", "sed 's/^/paged: /'");
    assert!(run(&["top"], &[pager]));
    assert!(run(&["top"], &[("PAGER", "sed 's/^/paged: /'")]));
    assert!(!run(&["top", "--no-pager"], &[pager]));
    assert!(!run(&["top", "--format", "json"], &[pager]));
    assert!(!run(&["top"], &[pager, ("TERM", "dumb")]));
    assert!(!run(
        &["top"],
        &[("VCPI_PAGER", ""), ("PAGER", "sed s/^/x/")]
    ));
    // One that is not there is none.
    assert!(!run(&["top"], &[("VCPI_PAGER", "no-such-pager")]));
}

/// Colours are for terminals that are not told otherwise.
#[test]
fn colours() {
    let fixture = Fixture::new();
    let has_colours = |variables: &[(&str, &str)]| {
        let args = ["top", "--no-pager"];
        let mut terminal = Terminal::start(&fixture, &args, WIDE, variables);
        terminal.end().1.contains("\u{1b}[31m")
    };
    assert!(has_colours(&[]));
    assert!(!has_colours(&PLAIN));
    assert!(!has_colours(&[("TERM", "dumb")]));
    // Nor has what goes elsewhere.
    assert!(!fixture.report(&["top"]).contains('\u{1b}'));
}

/// Nothing is wider than a terminal of 60 columns.
#[test]
fn narrow() {
    let fixture = Fixture::new();
    for report in [
        &["top"][..],
        &["list", "hot"],
        &["branches"],
        &["args"],
        &["targets"],
        &["cg"],
    ] {
        let args = [report, &["--no-pager"]].concat();
        let mut terminal = Terminal::start(&fixture, &args, (60, 24), &PLAIN);
        let (status, written) = terminal.end();
        assert!(status.success(), "{written}");
        for line in written.lines() {
            assert!(line.chars().count() <= 60, "{report:?}: {line}");
        }
    }
}
