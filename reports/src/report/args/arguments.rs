//! The arguments of a call with their values.

use iced_x86::Register;
use serde::{Serialize, Serializer};

use crate::callee::Live;
use crate::convention::Convention;
use crate::liveness::VECTORS;
use crate::report::{JsonShare, json_shares, shares_between};
use crate::variables::{Declaration, Parameter, Passed};
use crate::view::{Base, Values};

/// The values of an argument.
#[derive(Debug)]
pub(super) struct Argument {
    /// Where it stands among those shown.
    pub(super) position: usize,
    /// Its number among the integer arguments, where that is known.
    index: Option<u8>,
    pub(super) register: Register,
    bits: u32,
    pub(super) values: Values,
    /// What it points to, where windows loaded that.
    text: Option<Values>,
    declared: Option<Parameter>,
}

/// An argument in JSON.
#[derive(Debug, Serialize)]
struct JsonArgument<'a> {
    /// Its position among the integer arguments; `null` where the order is not known.
    arg: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    of: Option<&'a str>,
    register: String,
    bits: u32,
    base: Base,
    reached: u64,
    unknown: u64,
    samples: u64,
    values: Vec<JsonShare>,
    /// The first bytes of what it points to, of as many calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<JsonText>,
}

/// What an argument points to, in JSON.
#[derive(Debug, Serialize)]
struct JsonText {
    reached: u64,
    unknown: u64,
    samples: u64,
    values: Vec<JsonShare>,
}

impl Serialize for Argument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = &self.values;
        let declared = self.declared.as_ref();
        let argument = JsonArgument {
            arg: self.index,
            name: declared.and_then(|declared| declared.name.as_deref()),
            of: declared.map(|declared| declared.of.as_str()),
            register: instructions::register_name(self.register),
            bits: self.bits,
            base: values.base,
            reached: values.reached,
            unknown: values.unknown,
            samples: values.samples(),
            values: json_shares(values, values.class()),
            text: self.text.as_ref().map(|text| JsonText {
                reached: text.reached,
                unknown: text.unknown,
                samples: text.samples(),
                values: json_shares(text, text.class()),
            }),
        };
        argument.serialize(serializer)
    }
}

impl Argument {
    /// The classic report has one value each; the rest is in JSON and in `list`.
    pub(super) fn text(&self, raw: bool, intervals: bool) -> String {
        let values = &self.values;
        let class = values.class();
        let words = self.declared.as_ref().filter(|_| !raw);
        let shares = shares_between(values, 1, intervals, |value| {
            let number = match raw {
                true => class.text(value),
                false => values.text(value),
            };
            match words.and_then(|of| of.words.of(class.mask(value))) {
                Some(word) => format!("{number} {word}"),
                None => number,
            }
        });
        let mut shown = shares.replace(" ...", "") + values.base.of_parameter();
        if let Some(text) = self.text.as_ref().filter(|_| !raw) {
            let class = text.class();
            let shares = shares_between(text, 1, intervals, |value| class.text(value));
            // The dots of a text are its own.
            let shares = shares.strip_suffix(" ...").unwrap_or(&shares);
            shown.push(' ');
            shown.push_str(shares);
        }
        shown
    }

    /// Takes what the argument points to from among all that was captured, if it is text: it is
    /// declared to be, or can be printed.
    pub(super) fn find_text(&mut self, all: &[Values], convention: Convention) {
        let Some(index) = self.index.filter(|_| convention == Convention::Platform) else {
            return;
        };
        let base = self.values.base.is_of_executions();
        let text = all.iter().find(|values| {
            values.text_of_argument() == Some(index)
                && values.base.is_of_executions() == base
                && values.samples() > 0
        });
        let is_declared = self.declared.as_ref().is_some_and(Parameter::is_string);
        let text = text.filter(|text| is_declared || text.is_printable());
        self.text = text.map(|text| text.clone().of_calls(self.values.reached));
    }
}

/// The values of one argument, by both bases where there are both.
fn captured(values: &[Values], is_it: impl Fn(&Values) -> bool) -> Vec<&Values> {
    let captured = values.iter();
    let captured = captured.filter(|values| is_it(values) && values.samples() > 0);
    let mut captured: Vec<&Values> = captured.collect();
    captured.sort_by_key(|values| values.base);
    captured
}

/// The arguments that code reads.
pub(super) fn live_arguments(live: &Live, values: &[Values]) -> Vec<Argument> {
    let mut args = Vec::new();
    for argument in &live.arguments {
        let captured = captured(values, |values| values.is_in(argument.register));
        args.extend(captured.into_iter().map(|values| Argument {
            position: usize::from(argument.index),
            index: Some(argument.index).filter(|_| live.convention != Convention::Unknown),
            register: argument.register,
            bits: argument.bits,
            values: values.narrowed(argument.bits),
            text: None,
            declared: None,
        }));
    }
    args
}

/// The arguments that are declared, of those in integer registers the ones that code reads.
pub(super) fn declared_arguments(
    live: &Live,
    declared: &Declaration,
    values: &[Values],
) -> Vec<Argument> {
    let mut args = Vec::new();
    for (position, parameter) in declared.parameters.iter().enumerate() {
        let argument = |index, register, bits, values| Argument {
            position,
            index,
            register,
            bits,
            values,
            text: None,
            declared: Some(parameter.clone()),
        };
        match parameter.passed {
            Passed::Integer(number) => {
                let mut of_live = live.arguments.iter();
                let Some(of) = of_live.find(|of| of.index == number) else {
                    continue;
                };
                let captured = captured(values, |values| values.is_in(of.register));
                args.extend(captured.into_iter().map(|values| {
                    let narrowed = values.narrowed(of.bits);
                    let narrowed = narrowed.of_type(parameter.number.as_ref());
                    argument(Some(number), of.register, of.bits, narrowed)
                }));
            }
            Passed::Vector(number, bits) => {
                let Some(register) = VECTORS.get(usize::from(number)) else {
                    continue;
                };
                let captured = captured(values, |of| of.vector_argument() == Some(number));
                let numbers = captured.into_iter().filter_map(|of| of.as_numbers(bits));
                args.extend(numbers.map(|numbers| argument(None, *register, bits, numbers)));
            }
            Passed::Stack | Passed::Unread => {}
        }
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::liveness::Argument as LiveArgument;
    use crate::variables::{NumberType, Words};
    use crate::view::Share;

    /// A value that was seen ten times of ten.
    fn seen(parameter: &str, value: u64) -> Values {
        Values {
            pc: 0,
            caller: None,
            base: Base::Time,
            independent: true,
            parameter: parameter.to_owned(),
            reached: 10,
            unknown: 0,
            windows: 10,
            threshold: 1.0,
            by_process: Vec::new(),
            typed: None,
            name: None,
            words: Words::None,
            pointed: std::collections::BTreeMap::new(),
            live: true,
            shares: vec![Share {
                value,
                estimate: 10.0,
                variance: 0.0,
                percent: 100.0,
                low: 72.2,
                high: 100.0,
                trend: crate::view::Trend::Steady,
            }],
        }
    }

    fn parameter(passed: Passed, words: Words) -> Parameter {
        Parameter {
            number: None,
            name: Some("n".to_owned()),
            of: "type".to_owned(),
            passed,
            words,
        }
    }

    /// An argument that is declared without negative numbers is none.
    #[test]
    fn unsigned() {
        let number = |is_signed| NumberType {
            name: None,
            bits: 16,
            is_signed,
            is_truth: false,
        };
        let of = |is_signed| Declaration {
            parameters: vec![Parameter {
                number: Some(number(is_signed)),
                ..parameter(Passed::Integer(0), Words::None)
            }],
            is_whole: true,
            is_sure: true,
            may_lack: false,
            absent: Vec::new(),
        };
        let live = Live {
            arguments: vec![LiveArgument {
                index: 0,
                bits: 16,
                register: Register::RDI,
            }],
            known: true,
            convention: Convention::Platform,
        };
        let text = |is_signed| {
            let shown = declared_arguments(&live, &of(is_signed), &[seen("arg0", 0xfff0)]);
            shown.first().map(|one| one.text(false, false))
        };
        assert_eq!(text(true).as_deref(), Some("(100.0% -16)"));
        assert_eq!(text(false).as_deref(), Some("(100.0% 0xfff0)"));
    }

    /// Declared arguments stand in their order, each with its own register, as what they are. One
    /// on the stack has no values, and one that the code does not read is not shown.
    #[test]
    fn declared_order() {
        let declared = Declaration {
            is_whole: true,
            parameters: vec![
                parameter(Passed::Vector(0, 64), Words::None),
                parameter(Passed::Stack, Words::None),
                parameter(Passed::Integer(0), Words::Truth),
                parameter(Passed::Vector(1, 32), Words::None),
                parameter(Passed::Integer(1), Words::None),
            ],
            is_sure: true,
            may_lack: false,
            absent: Vec::new(),
        };
        let live = Live {
            arguments: vec![LiveArgument {
                index: 0,
                bits: 8,
                register: Register::RDI,
            }],
            known: true,
            convention: Convention::Platform,
        };
        let above = u64::from(1.5_f32.to_bits()) | 7 << 32;
        let values = [
            seen("arg0", 0x101),
            seen("arg1", 7),
            seen("varg0", 312_500.0_f64.to_bits()),
            seen("varg1", above),
        ];
        let shown = declared_arguments(&live, &declared, &values);
        let text = |raw, intervals| -> Vec<(usize, String)> {
            let shown = shown.iter();
            let text = shown.map(|one| (one.position, one.text(raw, intervals)));
            text.collect()
        };
        let expected = |truth: &str| {
            [(0, "(100.0% 312500)"), (2, truth), (3, "(100.0% 1.5)")]
                .map(|(position, text)| (position, text.to_owned()))
        };
        assert_eq!(text(false, false), expected("(100.0% 0x1 true)"));
        assert_eq!(text(true, false), expected("(100.0% 0x1)"));
        let with_intervals = text(false, true);
        let Some((_, first)) = with_intervals.first() else {
            panic!("nothing is shown");
        };
        assert_eq!(first, "(100.0% [72.2-100.0] 312500)");
        let json = serde_json::to_value(&shown).expect("is JSON");
        assert_eq!(json[0]["register"], "xmm0");
        assert_eq!(json[0]["values"][0]["float"], 312_500.0);
        assert_eq!(
            (&json[0]["arg"], &json[1]["arg"]),
            (&serde_json::Value::Null, &0.into())
        );
        assert_eq!(json[1]["name"], "n");
    }
}
