//! True shares next to sampled shares: the truth as the fixture prints it, and
//! the JSON reports of `vcpi`, compared. Looks at texts only.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Windows from which an even-tempered share is held to [`MAX_POINTS`].
pub const MIN_WINDOWS: u64 = 3_000;
/// Greatest allowed difference from the truth, in percentage points.
pub const MAX_POINTS: f64 = 3.0;

/// What of a function a share is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// The argument of this number, at calls from all sites.
    Argument(u64),
    /// The result of the function's load.
    Load,
    /// The result of the instruction that yields the value.
    Value,
    /// The function's conditional branch is taken.
    Taken,
    /// The target of the function's indirect call.
    Target,
}

/// A share that the fixture states exactly.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// What it is, for people.
    pub name: String,
    /// The function it is about.
    pub function: String,
    /// What of the function.
    pub measure: Measure,
    /// The value as reports print it; empty for [`Measure::Taken`].
    pub value: String,
    /// The true share in percent.
    pub percent: f64,
    /// The value does not change how long the function takes, so that the
    /// sampled share estimates the true one.
    pub even_tempered: bool,
}

/// A sampled share: percentages with a 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampled {
    /// The estimate.
    pub percent: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Distinct windows that it rests on.
    pub windows: u64,
}

/// A true share and what was sampled of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The truth.
    pub truth: Share,
    /// What was sampled; `None` if the value or its instruction was not seen.
    pub sampled: Option<Sampled>,
}

impl Comparison {
    /// Sampled less true share, in percentage points.
    pub fn difference(&self) -> Option<f64> {
        Some(self.sampled?.percent - self.truth.percent)
    }

    /// Checks an even-tempered share: at least [`MIN_WINDOWS`] windows and at
    /// most [`MAX_POINTS`] away from the truth. Biased shares always pass.
    ///
    /// # Errors
    /// A sentence that says what is wrong, with the figures.
    pub fn verdict(&self) -> Result<(), String> {
        if !self.truth.even_tempered {
            return Ok(());
        }
        let place = format!("{} ({})", self.truth.name, self.truth.function);
        let Some(sampled) = self.sampled else {
            return Err(format!("{place}: not sampled"));
        };
        if sampled.windows < MIN_WINDOWS {
            return Err(format!(
                "{place}: {} windows, fewer than {MIN_WINDOWS}",
                sampled.windows
            ));
        }
        let difference = sampled.percent - self.truth.percent;
        if difference.is_nan() || difference.abs() > MAX_POINTS {
            return Err(format!(
                "{place}: sampled {:.1} %, true {:.1} %, in {} windows",
                sampled.percent, self.truth.percent, sampled.windows
            ));
        }
        Ok(())
    }
}

/// Reads what the fixture prints at its end.
///
/// # Errors
/// If the text has not that form.
pub fn parse_truth(text: &str) -> Result<Vec<Share>> {
    let truth: Value = serde_json::from_str(text).context("not JSON")?;
    items(&truth, "shares")?
        .iter()
        .map(|share| {
            let measure = match string(share, "measure")? {
                "load" => Measure::Load,
                "value" => Measure::Value,
                "taken" => Measure::Taken,
                "target" => Measure::Target,
                other => Measure::Argument(
                    other
                        .strip_prefix("arg")
                        .and_then(|number| number.parse().ok())
                        .with_context(|| format!("unknown measure {other:?}"))?,
                ),
            };
            let (count, of) = (number(share, "count")?, number(share, "of")?);
            if !(of > 0.0 && count <= of) {
                bail!("{count} of {of} is no share");
            }
            Ok(Share {
                name: string(share, "name")?.to_owned(),
                function: string(share, "function")?.to_owned(),
                measure,
                value: string(share, "value")?.to_owned(),
                percent: 100.0 * count / of,
                even_tempered: share["even_tempered"]
                    .as_bool()
                    .context("no field \"even_tempered\"")?,
            })
        })
        .collect()
}

/// Finds in a report what was sampled of `truth`: `args` for an argument,
/// `list` for a load or value, `branches`, or `targets`.
///
/// # Errors
/// If the report has not its documented form.
pub fn compare(truth: Share, report: &Value) -> Result<Comparison> {
    let sampled = match truth.measure {
        Measure::Argument(number) => argument(&truth, number, report),
        Measure::Load => listed(&truth, report, true),
        Measure::Value => listed(&truth, report, false),
        Measure::Taken => taken(&truth, report),
        Measure::Target => target(&truth, report),
    }
    .with_context(|| format!("the report on {}", truth.function))?;
    Ok(Comparison { truth, sampled })
}

fn argument(truth: &Share, argument: u64, report: &Value) -> Result<Option<Sampled>> {
    for row in array(report)? {
        if string(row, "function")? != truth.function || !row["call_site"].is_null() {
            continue;
        }
        for entry in items(row, "args")? {
            if count(entry, "arg")? == argument {
                // A window is shorter than the way from call to call: every
                // call seen is a window of its own.
                return value_share(truth, entry, count(entry, "samples")?);
            }
        }
    }
    Ok(None)
}

/// The share in the profile that holds the value: of the load, or of the
/// instruction that was reached most often.
fn listed(truth: &Share, report: &Value, loads_only: bool) -> Result<Option<Sampled>> {
    let mut best: Option<Sampled> = None;
    for row in array(report)? {
        if string(row, "function")? != truth.function
            || (loads_only && !string(row, "text")?.contains('['))
        {
            continue;
        }
        for profile in items(row, "profiles")? {
            if !is_register(string(profile, "parameter")?) {
                continue;
            }
            let found = value_share(truth, profile, count(profile, "windows")?)?;
            if let Some(found) = found
                && best.is_none_or(|best| found.windows > best.windows)
            {
                best = Some(found);
            }
        }
    }
    Ok(best)
}

/// Whether a parameter names a destination register rather than an address, a
/// stored value, an operand or a place of the calling convention.
fn is_register(parameter: &str) -> bool {
    let stem = parameter
        .split_once('.')
        .map_or(parameter, |(stem, _)| stem);
    !matches!(
        stem,
        "taken" | "ea" | "base" | "mem" | "load" | "old" | "target" | "ret" | "vret" | "pair"
    ) && !["arg", "varg", "op"]
        .iter()
        .any(|kind| stem.starts_with(kind))
}

/// The truth's value in the `values` of a profile of `windows` windows.
fn value_share(truth: &Share, profile: &Value, windows: u64) -> Result<Option<Sampled>> {
    for entry in items(profile, "values")? {
        if string(entry, "value")? == truth.value {
            return Ok(Some(Sampled {
                percent: number(entry, "percent")?,
                low: number(entry, "low")?,
                high: number(entry, "high")?,
                windows,
            }));
        }
    }
    Ok(None)
}

fn taken(truth: &Share, report: &Value) -> Result<Option<Sampled>> {
    // The branch of interest is the first of its function.
    let mut first: Option<(u64, u64, u64)> = None;
    for row in array(report)? {
        if string(row, "function")? != truth.function {
            continue;
        }
        let branch = (
            address(row)?,
            count(row, "taken")?,
            count(row, "not_taken")?,
        );
        if first.is_none_or(|first| branch.0 < first.0) {
            first = Some(branch);
        }
    }
    Ok(first.and_then(|(_, taken, not_taken)| wilson(taken, taken.saturating_add(not_taken))))
}

fn target(truth: &Share, report: &Value) -> Result<Option<Sampled>> {
    for row in array(report)? {
        if string(row, "function")? != truth.function {
            continue;
        }
        let mut hits = 0.0;
        let mut all = 0.0;
        for entry in items(row, "targets")? {
            let events = number(entry, "count")?;
            all += events;
            if string(entry, "target")? == truth.value {
                hits += events;
            }
        }
        return Ok(wilson(hits.round() as u64, all.round() as u64));
    }
    Ok(None)
}

/// `hits` of `all` as a share with Wilson's 95 % interval; `None` of nothing.
fn wilson(hits: u64, all: u64) -> Option<Sampled> {
    const Z: f64 = 1.96;
    if all == 0 {
        return None;
    }
    let n = all as f64;
    let share = hits as f64 / n;
    let scale = 1.0 + Z * Z / n;
    let middle = (share + Z * Z / (2.0 * n)) / scale;
    let half = Z / scale * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    Some(Sampled {
        percent: 100.0 * share,
        low: 100.0 * (middle - half).max(0.0),
        high: 100.0 * (middle + half).min(1.0),
        windows: all,
    })
}

/// The comparison as a table, the even-tempered shares or the biased ones.
pub fn table(comparisons: &[Comparison], even_tempered: bool) -> String {
    let mut text = format!(
        "  {:<37} {:>6}   {:>7}  {:<15} {:>8} {:>11}\n",
        "", "true", "sampled", "(95 % interval)", "windows", "difference"
    );
    for comparison in comparisons {
        let truth = &comparison.truth;
        if truth.even_tempered != even_tempered {
            continue;
        }
        let _ = write!(text, "  {:<37} {:>5.1}%   ", truth.name, truth.percent);
        let _ = match comparison.sampled {
            Some(sampled) => writeln!(
                text,
                "{:>6.1}%  {:<15} {:>8} {:>11}",
                sampled.percent,
                format!("({:.1} - {:.1})", sampled.low, sampled.high),
                sampled.windows,
                format!("{:+.1} points", sampled.percent - truth.percent),
            ),
            None => writeln!(text, "not sampled"),
        };
    }
    text
}

fn array(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().context("not an array")
}

fn items<'a>(value: &'a Value, field: &str) -> Result<&'a Vec<Value>> {
    value[field]
        .as_array()
        .with_context(|| format!("no array {field:?}"))
}

fn string<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value[field]
        .as_str()
        .with_context(|| format!("no text {field:?}"))
}

fn number(value: &Value, field: &str) -> Result<f64> {
    value[field]
        .as_f64()
        .with_context(|| format!("no number {field:?}"))
}

fn count(value: &Value, field: &str) -> Result<u64> {
    value[field]
        .as_u64()
        .with_context(|| format!("no count {field:?}"))
}

fn address(row: &Value) -> Result<u64> {
    let text = string(row, "address")?;
    let digits = text
        .strip_prefix("0x")
        .with_context(|| format!("address {text:?}"))?;
    u64::from_str_radix(digits, 16).with_context(|| format!("address {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn share(measure: Measure, value: &str, percent: f64) -> Share {
        Share {
            name: "n".to_owned(),
            function: "f".to_owned(),
            measure,
            value: value.to_owned(),
            percent,
            even_tempered: true,
        }
    }

    /// The truth that the fixture prints is read with its measure and its share.
    #[test]
    fn truth_is_read() {
        let text = r#"{"rounds": 1, "shares": [{"name": "n", "function": "f", "measure": "arg1",
            "value": "0x4", "count": 19, "of": 20, "even_tempered": true}]}"#;
        assert_eq!(
            parse_truth(text).unwrap(),
            [share(Measure::Argument(1), "0x4", 95.0)]
        );
        assert!(parse_truth(&text.replace("arg1", "argument")).is_err());
        assert!(parse_truth(&text.replace("20", "0")).is_err());
        assert!(parse_truth("").is_err());
    }

    /// An argument is taken from the row of all call sites together.
    #[test]
    fn argument_of_all_sites() {
        let args = |site: Value, percent: f64| {
            json!({"function": "f", "call_site": site, "calls": 9, "args": [
                {"arg": 0, "samples": 4000, "values":
                    [{"value": "0x4", "percent": percent, "low": 1.0, "high": 2.0}]}]})
        };
        let report = json!([args(json!("0x10"), 10.0), args(Value::Null, 94.0)]);
        let found = compare(share(Measure::Argument(0), "0x4", 95.0), &report).unwrap();
        assert_eq!(found.sampled.unwrap().percent, 94.0);
        assert_eq!(found.verdict(), Ok(()));
        assert!((found.difference().unwrap() + 1.0).abs() < 1e-9);
    }

    /// A load is looked for among register results of instructions that read memory.
    #[test]
    fn load_is_found() {
        let row = |text: &str, parameter: &str, percent: f64| {
            json!({"function": "f", "text": text, "profiles": [
                {"parameter": parameter, "windows": 5000, "values":
                    [{"value": "0x5eed", "percent": percent, "low": 0.0, "high": 0.0}]}]})
        };
        let report = json!([
            row("mov rax,[rdx]", "ea", 1.0),
            row("mov rax,[rdx]", "rax", 70.0),
            row("mov rcx,rax", "rcx", 2.0),
        ]);
        let found = compare(share(Measure::Load, "0x5eed", 70.0), &report).unwrap();
        assert_eq!(found.sampled.unwrap().percent, 70.0);
    }

    /// Of several branches the function's first one counts, with Wilson's interval.
    #[test]
    fn first_branch() {
        let report = json!([
            {"address": "0x20", "function": "f", "taken": 1, "not_taken": 1},
            {"address": "0x10", "function": "f", "taken": 90, "not_taken": 10},
        ]);
        let found = compare(share(Measure::Taken, "", 90.0), &report).unwrap();
        let sampled = found.sampled.unwrap();
        assert_eq!((sampled.percent, sampled.windows), (90.0, 100));
        assert!((sampled.low - 82.56).abs() < 0.01 && (sampled.high - 94.48).abs() < 0.01);
    }

    /// An indirect call's share is that of its target among all its targets.
    #[test]
    fn target_share() {
        let report = json!([{"address": "0x10", "function": "f", "kind": "call", "targets": [
            {"target": "a", "count": 30, "percent": 75.0},
            {"target": "b", "count": 10, "percent": 25.0}]}]);
        let found = compare(share(Measure::Target, "a", 75.0), &report).unwrap();
        assert_eq!(found.sampled.unwrap().percent, 75.0);
    }

    /// Too few windows, too large a difference and a missing sample all fail an
    /// even-tempered share, and none of them a biased one.
    #[test]
    fn verdicts() {
        let mut comparison = Comparison {
            truth: share(Measure::Taken, "", 90.0),
            sampled: wilson(2600, 2900),
        };
        assert!(comparison.verdict().unwrap_err().contains("fewer"));
        comparison.sampled = wilson(3400, 4000);
        assert!(comparison.verdict().unwrap_err().contains("85.0 %"));
        comparison.sampled = None;
        assert!(comparison.verdict().unwrap_err().contains("not sampled"));
        comparison.truth.even_tempered = false;
        assert_eq!(comparison.verdict(), Ok(()));
    }

    /// A report that lacks a documented field is an error that names the field.
    #[test]
    fn malformed_reports() {
        let report = json!([{"function": "f", "call_site": null}]);
        let error = compare(share(Measure::Argument(0), "0x4", 95.0), &report).unwrap_err();
        assert!(format!("{error:#}").contains("args"), "{error:#}");
        assert!(compare(share(Measure::Load, "", 1.0), &json!({})).is_err());
    }
}
