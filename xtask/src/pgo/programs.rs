//! The programs that are optimised: where their sources come from, how they are built, what they
//! are recorded on, and what their builds are compared on.
//!
//! Each step is a line for a shell. `$SRC` has the sources of all programs, `$ROOT` is this
//! project, `$DATA` has what programs read, `$PROG` is a build. Steps that build run where the
//! program's source is, loads in a folder of their own.

/// A program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Program {
    /// Its name in tables and in `--programs`.
    pub(super) name: &'static str,
    /// What it is written in.
    pub(super) language: Language,
    /// Debian's source packages that it and its loads need; its own is the first one, unless cargo
    /// fetches it.
    pub(super) sources: &'static [&'static str],
    /// Makes what all builds read.
    pub(super) prepare: &'static str,
    /// Builds `$OUT` by `$CC` or `$CXX`, which have all flags, or by cargo, behind `"$@"`.
    pub(super) build: &'static str,
    /// Makes what it reads, in `$DATA`.
    pub(super) data: &'static str,
    /// What it is recorded on: some ten seconds.
    pub(super) train: &'static str,
    /// What builds are compared on: one or two seconds. What this prints is compared.
    pub(super) test: &'static str,
}

/// What a program is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    /// Compiled by clang.
    C,
    /// Compiled by clang++.
    Cpp,
    /// Compiled by cargo.
    Rust,
}

impl Language {
    pub(super) fn name(self) -> &'static str {
        match self {
            Language::C => "C",
            Language::Cpp => "C++",
            Language::Rust => "Rust",
        }
    }
}

/// Markdown to train on is this project's, that to test on is cmark's: some 10 MB each.
const MARKDOWN: &str = "\
    i=0; while [ $i -lt 80 ]; do find \"$ROOT\" -name '*.md' -not -path '*/target/*' | LC_ALL=C \
    sort | xargs cat; i=$((i + 1)); done > train.md; \
    i=0; while [ $i -lt 42 ]; do cat \"$SRC/cmark/test/spec.txt\" \"$SRC/cmark/changelog.txt\"; \
    i=$((i + 1)); done > test.md";

/// JSON to train on has numbers, words and paragraphs; that to test on is of objects: some 10 MB
/// each.
const JSON: &str = "\
    json() { n=$1; shift; echo '['; while [ $n -gt 0 ]; do for file do cat \"$file\"; echo ','; \
    done; n=$((n - 1)); done; echo 'null]'; }; \
    json 200 \"$SRC\"/rapidjson/bin/types/*.json > train.json; \
    json 14 \"$SRC\"/rapidjson/bin/data/*.json \
    \"$SRC\"/rapidjson/bin/jsonschema/tests/draft4/*.json > test.json";

/// What is compressed is this project's text, and C.
const TEXT: &str = "\
    find \"$ROOT\" '(' -name '*.md' -o -name '*.rs' ')' -not -path '*/target/*' | LC_ALL=C sort \
    | xargs cat > train.txt; cat \"$SRC\"/duktape/src/*.c \"$SRC\"/tcc/*.c > test.txt";

/// All of them.
pub(super) const PROGRAMS: [Program; 9] = [
    Program {
        name: "sqlite",
        language: Language::C,
        sources: &["sqlite3"],
        prepare: "./configure >/dev/null && make sqlite3.c >/dev/null",
        build: "$CC -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -I. test/speedtest1.c \
                sqlite3.c -o \"$OUT\" -lm",
        data: "",
        train: "i=0; while [ $i -lt 4 ]; do \"$PROG\" --memdb --size 100 --testset main; \
                i=$((i + 1)); done >/dev/null",
        test: "\"$PROG\" --memdb --size 50 --testset orm --output orm >/dev/null; \
               \"$PROG\" --memdb --size 20 --testset cte --output cte >/dev/null; \
               \"$PROG\" --memdb --size 15 --testset main --utf16le --without-rowid \
               --output main >/dev/null; cat orm cte main",
    },
    Program {
        name: "tcc",
        language: Language::C,
        sources: &["tcc", "lua5.4", "duktape"],
        prepare: "./configure --cc=gcc >/dev/null",
        // It finds the headers of the C library by this.
        build: "$CC -I. '-DCONFIG_TRIPLET=\"x86_64-linux-gnu\"' tcc.c -o \"$OUT\" -lm -ldl \
                -lpthread",
        data: "",
        train: "i=0; while [ $i -lt 300 ]; do \
                \"$PROG\" -B\"$SRC/tcc\" -I\"$SRC/tcc/include\" -w -c \"$SRC\"/lua5.4/src/l*.c; \
                i=$((i + 1)); done",
        test: "i=0; while [ $i -lt 8 ]; do \
               \"$PROG\" -B\"$SRC/tcc\" -I\"$SRC/tcc/include\" -I\"$SRC/duktape/src\" -w -c \
               \"$SRC/duktape/src/duktape.c\"; i=$((i + 1)); done; cat duktape.o",
    },
    Program {
        name: "duktape",
        language: Language::C,
        sources: &["duktape"],
        prepare: "",
        build: "$CC -DDUK_CMDLINE_PRINTALERT_SUPPORT -Iextras/print-alert -Isrc \
                -Iexamples/cmdline src/duktape.c examples/cmdline/duk_cmdline.c \
                extras/print-alert/duk_print_alert.c -o \"$OUT\" -lm",
        data: "(echo 'var ROUNDS = 400;'; cat \"$ROOT/tests/fixtures/pgo/train.js\") > train.js; \
               (echo 'var ROUNDS = 60;'; cat \"$ROOT/tests/fixtures/pgo/test.js\") > test.js",
        train: "\"$PROG\" \"$DATA/train.js\" >/dev/null",
        test: "\"$PROG\" \"$DATA/test.js\"",
    },
    Program {
        name: "cmark",
        language: Language::C,
        sources: &["cmark"],
        prepare: "cd src && sed 's/#cmakedefine/#define/' config.h.in > config.h && \
                  sed 's/@[A-Z_]*@/0/g' cmark_version.h.in > cmark_version.h && \
                  printf '#define CMARK_EXPORT\\n#define CMARK_NO_EXPORT\\n' > cmark_export.h",
        build: "$CC -Isrc src/*.c -o \"$OUT\"",
        data: MARKDOWN,
        train: "i=0; while [ $i -lt 40 ]; do \"$PROG\" \"$DATA/train.md\"; i=$((i + 1)); done \
                >/dev/null",
        test: "i=0; while [ $i -lt 5 ]; do \"$PROG\" \"$DATA/test.md\"; i=$((i + 1)); done | cksum",
    },
    Program {
        name: "lua",
        language: Language::C,
        sources: &["lua5.4"],
        prepare: "",
        build: "cd src && $CC -std=gnu99 -DLUA_USE_LINUX $(ls *.c | grep -v luac.c) -o \"$OUT\" -lm \
                -ldl",
        data: "",
        train: "\"$PROG\" \"$ROOT/tests/fixtures/pgo/train.lua\" 750 >/dev/null",
        test: "\"$PROG\" \"$ROOT/tests/fixtures/pgo/test.lua\" 80",
    },
    Program {
        name: "zstd",
        language: Language::C,
        sources: &["libzstd", "duktape", "tcc"],
        prepare: "",
        build: "$CC -DZSTD_DISABLE_ASM -Ilib -Ilib/common lib/common/*.c lib/compress/*.c \
                lib/decompress/*.c lib/dictBuilder/*.c programs/*.c -o \"$OUT\"",
        data: TEXT,
        train: "i=0; while [ $i -lt 15 ]; do for level in 3 9 3 1 3; do \
                \"$PROG\" -q -f -$level \"$DATA/train.txt\" -o train.zst; \
                for n in 1 2 3; do \"$PROG\" -q -dc train.zst >/dev/null; done; done; \
                i=$((i + 1)); done",
        test: "i=0; while [ $i -lt 4 ]; do for level in 3 9 3 1 3; do \
               \"$PROG\" -q -f -$level \"$DATA/test.txt\" -o test.$level.zst; \
               for n in 1 2 3; do \"$PROG\" -q -dc test.$level.zst >/dev/null; done; done; \
               i=$((i + 1)); done; cat test.*.zst | cksum; \"$PROG\" -q -dc test.9.zst | cksum",
    },
    Program {
        name: "jsonnet",
        language: Language::Cpp,
        sources: &["jsonnet"],
        prepare: "make core/std.jsonnet.h >/dev/null",
        build: "$CXX -std=c++17 -Iinclude -Icpp -Ithird_party/md5 -Ithird_party/json \
                -Ithird_party/rapidyaml/rapidyaml/src \
                -Ithird_party/rapidyaml/rapidyaml/ext/c4core/src cmd/jsonnet.cpp cmd/utils.cpp \
                $(ls core/*.cpp | grep -v _test) third_party/md5/md5.cpp \
                third_party/rapidyaml/rapidyaml/src/c4/yml/*.cpp \
                third_party/rapidyaml/rapidyaml/ext/c4core/src/c4/*.cpp -o \"$OUT\"",
        data: "",
        train: "cd \"$SRC/jsonnet/benchmarks\"; i=0; while [ $i -lt 4 ]; do \
                for n in 01 02 03 04; do \"$PROG\" bench.$n.jsonnet; done; i=$((i + 1)); done \
                >/dev/null",
        test: "for file in \"$SRC\"/jsonnet/perf_tests/large_string_join.jsonnet \
               \"$SRC\"/jsonnet/benchmarks/bench.08.jsonnet; do \"$PROG\" \"$file\"; done",
    },
    Program {
        name: "rapidjson",
        language: Language::Cpp,
        sources: &["rapidjson"],
        prepare: "",
        build: "$CXX -std=c++11 -Iinclude example/pretty/pretty.cpp -o \"$OUT\"",
        data: JSON,
        train: "i=0; while [ $i -lt 100 ]; do \"$PROG\" < \"$DATA/train.json\"; i=$((i + 1)); done \
                >/dev/null",
        test: "i=0; while [ $i -lt 10 ]; do \"$PROG\" < \"$DATA/test.json\"; i=$((i + 1)); done \
               | cksum",
    },
    Program {
        name: "pulldown-cmark",
        language: Language::Rust,
        sources: &["cmark"],
        prepare: "",
        build: "\"$@\" cargo install -q pulldown-cmark --version 0.13.6 --locked --root \"$OUT.root\" \
                --target-dir \"$OUT.target\" && cp \"$OUT.root/bin/pulldown-cmark\" \"$OUT\" && \
                rm -r \"$OUT.root\" \"$OUT.target\"",
        data: MARKDOWN,
        train: "i=0; while [ $i -lt 40 ]; do \"$PROG\" < \"$DATA/train.md\"; i=$((i + 1)); done \
                >/dev/null",
        test: "i=0; while [ $i -lt 5 ]; do \"$PROG\" < \"$DATA/test.md\"; i=$((i + 1)); done \
               | cksum",
    },
];
