//! Lines written anew.

use super::*;

/// A line with a case for `n` being 2, which it divides by.
fn divided(language: Language, line: &str, number: &str) -> Option<Vec<String>> {
    let kind = match line.contains('%') {
        true => HintKind::Modulus,
        false => HintKind::Divisor,
    };
    let (at, name) = divisor(line, kind)?;
    let known = with_number(line, at, name, number)?;
    reads(line, name)?;
    both(language, line, &format!("{name} == 2"), &known)
}

/// A statement is written with the number on one side, and as it was on the other.
#[test]
fn statements() {
    let lines = divided(Language::C, "c = skip + (width * x) / group;", "2");
    assert_eq!(
        lines.expect("it is a statement"),
        [
            "if (__builtin_expect(group == 2, 1))",
            "    c = skip + (width * x) / 2;",
            "else",
            "    c = skip + (width * x) / group;"
        ]
    );
    let rust = divided(Language::Rust, "sum += x % n;", "2").expect("it is a statement");
    assert_eq!(rust[..2], ["if n == 2 {", "    sum += x % 2;"]);
}

/// Only what is divided by becomes a number: a size or another function's choice stays as it is.
#[test]
fn other_uses() {
    let lines = divided(Language::C, "s += x / n + sizeof(n) + n;", "2");
    let lines = lines.expect("it is a statement");
    assert_eq!(lines[1], "    s += x / 2 + sizeof(n) + n;");
}

/// What declares, changes the variable, is part of a statement or more than one, or names only
/// a member of that name is left to the reader.
#[test]
fn what_is_no_such_statement() {
    for line in [
        "static int c = x / n;",
        "int c = x / n, d = 1;",
        "int c = d = x / n;",
        "n = x / n;",
        "x /= n; y++;",
        "if (x / n) y++;",
        "} else x = y / n;",
        "+ x / n;",
        "x = f(&n) / n;",
        "x = y / own->n;",
        "x = y / n++;",
        "x = y / n--;",
        "x = y / n[0];",
        "x = y / n",
        "x = y /* by n */ / n;",
    ] {
        assert_eq!(divided(Language::C, line, "2"), None, "{line}");
    }
    assert!(divided(Language::C, "return x / n;", "2").is_some());
}

/// What declares a variable declares it once, with both cases behind the sign.
#[test]
fn declarations() {
    let of = |language, line| divided(language, line, "2");
    assert_eq!(
        of(Language::C, "unsigned long at = hash % n;").expect("it declares one"),
        ["unsigned long at = __builtin_expect(n == 2, 1) ? hash % 2 : hash % n;"]
    );
    assert_eq!(
        of(Language::C, "const int q = (x + i) / n;").expect("it declares one"),
        ["const int q = __builtin_expect(n == 2, 1) ? (x + i) / 2 : (x + i) / n;"]
    );
    assert_eq!(
        of(Language::Rust, "let at = hash % n;").expect("it declares one"),
        ["let at = if n == 2 { hash % 2 } else { hash % n };"]
    );
    assert_eq!(of(Language::Rust, "let n = hash % n;"), None);
    assert_eq!(of(Language::Go, "at := hash % n"), None);
}

/// Paths of Rust are no labels, and Go's statements end with their lines.
#[test]
fn other_languages() {
    let rust = divided(Language::Rust, "total += u64::from(x / base);", "2u32");
    assert_eq!(
        rust.expect("it is a statement")[..2],
        ["if base == 2 {", "    total += u64::from(x / 2u32);"]
    );
    let go = |line| divided(Language::Go, line, "2");
    assert_eq!(
        go("sum += x / base").expect("it is a statement")[..1],
        ["if base == 2 {"]
    );
    assert_eq!(go("sum := x / base"), None);
    assert_eq!(go("sum += x / base +"), None);
    assert_eq!(go("f(x / base)"), None);
}

/// A negative number does not make another sign of the one in front of it.
#[test]
fn negative_numbers() {
    let lines = divided(Language::C, "q += x / n;", "-7").expect("it is a statement");
    assert_eq!(lines[1], "    q += x / -7;");
    assert_eq!(
        with_number("q -=-n;", 5, "n", "-7"),
        Some("q -=-(-7);".to_owned())
    );
}

/// What is calculated with has a number in its place; what is handed on alone has not.
#[test]
fn calculations() {
    for (line, expected) in [
        ("s += n * x;", true),
        ("s += x - n;", true),
        ("s += x == n;", true),
        ("f(n);", false),
        ("s = n;", false),
        ("s = a[n];", false),
    ] {
        let at = reads(line, "n").expect("it is read")[0];
        assert_eq!(is_calculated(line, at, "n"), expected, "{line}");
    }
}

/// A copy gets its number, if its size can be read twice.
#[test]
fn copies() {
    let copied = |line| of_call(HintKind::CopySize, Language::C, line, "memcpy", "2");
    let line = "memcpy(to + at(i, 2), from, len);";
    let lines = copied(line);
    let lines = lines.expect("it is a call");
    assert_eq!(lines[0], "if (__builtin_expect(len == 2, 1))");
    assert_eq!(lines[1], "    memcpy(to + at(i, 2), from, 2);");
    let line = "memcpy(to, from, n * sizeof(int));";
    let lines = copied(line);
    let lines = lines.expect("it is a call");
    assert_eq!(lines[0], "if (__builtin_expect(n * sizeof(int) == 2, 1))");
    for line in [
        "memcpy(to, from, n++);",
        "memcpy(to, from, size(from));",
        "memcpy(to, from,",
        "copy(to, from, len);",
    ] {
        let lines = copied(line);
        assert_eq!(lines, None, "{line}");
    }
}

/// A call through a pointer becomes a direct one, whether that is a variable or a member.
#[test]
fn targets() {
    let of = |line| {
        let lines = of_call(HintKind::IndirectTarget, Language::C, line, "f", "of_stat");
        lines.map(|lines| lines[..2].to_vec())
    };
    assert_eq!(
        of("cost = model(k, sub[k], with) + costs[j];").expect("it calls once"),
        [
            "if (__builtin_expect(model == of_stat, 1))",
            "    cost = of_stat(k, sub[k], with) + costs[j];"
        ]
    );
    assert_eq!(
        of("g->out.print(g->ctx, text, 1);").expect("it calls once"),
        [
            "if (__builtin_expect(g->out.print == of_stat, 1))",
            "    of_stat(g->ctx, text, 1);"
        ]
    );
    assert_eq!(of("cost = model(other(k));"), None);
    assert_eq!(of("table[i].print(x);"), None);
}

/// The divisor is the word behind the sign, if it is no more than a word, and the only one.
#[test]
fn divisors() {
    let by = |line| divided_by(line, HintKind::Divisor);
    assert_eq!(by("c = (n * x) / group;"), Some("group"));
    assert_eq!(by("c = x/group - 1;"), Some("group"));
    for line in [
        "x / f(y)",
        "x / own->n",
        "x / n[1]",
        "x / y / z",
        "x /* a */",
        "x /= n",
        "x",
    ] {
        assert_eq!(by(line), None, "{line}");
    }
    assert_eq!(
        divided_by("at = h % size;", HintKind::Modulus),
        Some("size")
    );
}
