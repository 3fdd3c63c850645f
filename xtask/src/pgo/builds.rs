//! The builds of a program: plain, and from each kind of profile.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use vcpi_tests::programs::{Programs, remove_database, root};

use super::programs::{Language, Program};
use super::sources;
use crate::process::{progress, run, shown};

/// The version of LLVM's tools.
pub(super) const LLVM: &str = "22";
/// Flags of every build by clang. BOLT wants the relocations, and a fixed address; Propeller wants
/// the map of blocks, which changes no code.
const CLANG: &str = "-O2 -w -g1 -fdebug-info-for-profiling -funique-internal-linkage-names \
                     -fno-pie -no-pie -fbasic-block-address-map -Wl,--emit-relocs -Wl,--build-id";
/// Flags of every build by gcc.
const GCC: &str = "-O2 -w -g -fno-pie -no-pie -Wl,--build-id";
/// Flags of every build by rustc.
const RUSTC: &str = "-Cdebuginfo=1 -Cstrip=none -Zdebug-info-for-profiling \
                     -Clink-arg=-Wl,--emit-relocs -Clink-arg=-Wl,--build-id";
/// What takes more code for hot.
const HOT: &str = "-profile-summary-cutoff-hot=999000";
/// How BOLT lays out programs: as `vcpi pgo bolt` does.
const LAYOUT: [&str; 5] = [
    "-reorder-blocks=ext-tsp",
    "-reorder-functions=cdsort",
    "-split-functions",
    "-split-all-cold",
    "-dyno-stats",
];

/// A kind of build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variant {
    Plain,
    /// By counters that an instrumented build kept.
    Instrumented,
    /// By samples of instructions, as a profiler without branches has them.
    Samples,
    /// By `vcpi export profgen`.
    Vcpi,
    /// By the same, taking more code for hot.
    Hot,
    /// By the same, with counts apart for callers.
    Contexts,
    /// The plain build, laid out anew by `vcpi export bolt`.
    Bolt,
    /// That of [`Variant::Vcpi`], recorded again and laid out anew.
    VcpiBolt,
    /// By `vcpi export proftext`.
    Proftext,
    /// By `vcpi export propeller`.
    Propeller,
    /// Plain, by gcc.
    Gcc,
    /// By gcc and `vcpi export gcov`.
    Gcov,
}

impl Variant {
    /// All of them, each behind those that it is made of.
    pub(super) const ALL: [Variant; 12] = [
        Variant::Plain,
        Variant::Instrumented,
        Variant::Samples,
        Variant::Vcpi,
        Variant::Hot,
        Variant::Contexts,
        Variant::Bolt,
        Variant::VcpiBolt,
        Variant::Proftext,
        Variant::Propeller,
        Variant::Gcc,
        Variant::Gcov,
    ];

    /// Its name, which its file has.
    pub(super) fn name(self) -> &'static str {
        match self {
            Variant::Plain => "plain",
            Variant::Instrumented => "instrumented",
            Variant::Samples => "samples",
            Variant::Vcpi => "vcpi",
            Variant::Hot => "hot",
            Variant::Contexts => "contexts",
            Variant::Bolt => "bolt",
            Variant::VcpiBolt => "vcpi-bolt",
            Variant::Proftext => "proftext",
            Variant::Propeller => "propeller",
            Variant::Gcc => "gcc",
            Variant::Gcov => "gcov",
        }
    }

    /// The build without a profile by the same compiler, with which it is compared.
    pub(super) fn baseline(self) -> Variant {
        match self {
            Variant::Gcov => Variant::Gcc,
            _ => Variant::Plain,
        }
    }

    /// Whether it is built by samples of the plain build, so that its gain can be held against
    /// that of counters.
    pub(super) fn is_by_samples(self) -> bool {
        use Variant::{Gcc, Gcov, Instrumented, Plain};
        !matches!(self, Plain | Instrumented | Gcc | Gcov)
    }

    /// Whether a program in this language can be built so.
    pub(super) fn takes(self, language: Language) -> bool {
        language != Language::Rust
            || !matches!(self, Variant::Propeller | Variant::Gcc | Variant::Gcov)
    }
}

/// Where a program is worked on.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) program: Program,
    /// The sources of all programs.
    sources: PathBuf,
    /// What is made of this one.
    pub(super) folder: PathBuf,
    /// Both programs of the project.
    own: Programs,
}

fn tool(name: &str) -> String {
    format!("{name}-{LLVM}")
}

/// A path in words.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl Work {
    /// Fetches the source and makes what all builds read.
    ///
    /// # Errors
    /// If something cannot be fetched or made.
    pub(super) fn prepare(program: Program, folder: &Path) -> Result<Work> {
        let work = Work {
            program,
            sources: folder.join("src"),
            folder: folder.join(program.name),
            own: Programs::find()?,
        };
        std::fs::create_dir_all(work.data()).context("making a folder")?;
        for package in program.sources {
            sources::fetch(&work.sources, package)?;
        }
        let done = work.folder.join("prepared");
        if !done.is_file() {
            work.shell(program.prepare, &work.source(), &[])?;
            work.shell(program.data, &work.data(), &[])?;
            std::fs::write(done, "").context("writing a note")?;
        }
        Ok(work)
    }

    /// What programs read.
    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Where the program is built.
    fn source(&self) -> PathBuf {
        match (self.program.language, self.program.sources.first()) {
            (Language::C | Language::Cpp, Some(package)) => self.sources.join(package),
            _ => self.folder.clone(),
        }
    }

    /// The file of a build.
    pub(super) fn build(&self, variant: Variant) -> PathBuf {
        self.folder.join(variant.name())
    }

    /// What all lines know.
    pub(super) fn variables(&self) -> [(&'static str, OsString); 3] {
        [
            ("SRC", self.sources.clone().into()),
            ("ROOT", root().into()),
            ("DATA", self.data().into()),
        ]
    }

    /// Runs a line, which must succeed.
    fn shell(&self, line: &str, at: &Path, more: &[(&str, OsString)]) -> Result<()> {
        let mut command = Command::new("sh");
        command.args(["-ec", line]).current_dir(at);
        command.envs(self.variables()).stdin(Stdio::null());
        command.envs(more.iter().map(|(name, value)| (name, value)));
        let status = command.status().context("running sh")?;
        if !status.success() {
            bail!("{}: {line}: {status}", self.program.name);
        }
        Ok(())
    }

    /// Makes a build unless it is there.
    ///
    /// # Errors
    /// If a tool fails.
    pub(super) fn make(&self, variant: Variant) -> Result<()> {
        if self.build(variant).is_file() {
            return Ok(());
        }
        progress(&format!("{}: {}", self.program.name, variant.name()));
        match variant {
            Variant::Plain | Variant::Gcc => self.compile("", variant, variant.name()),
            Variant::Instrumented => self.instrumented(),
            Variant::Samples => {
                let path = self.recording(Variant::Plain)?;
                let samples = self.samples(&path)?;
                std::fs::write(self.folder.join("samples.raw"), samples)?;
                self.symbolized("samples.raw")?;
                self.sampled("samples.raw.prof", "", variant)
            }
            Variant::Contexts => {
                self.export(&["profgen", "--contexts"], Variant::Plain, "contexts.raw")?;
                self.symbolized("contexts.raw")?;
                self.sampled("contexts.raw.prof", "", variant)
            }
            Variant::Vcpi => {
                self.export(&["profgen"], Variant::Plain, "vcpi.raw")?;
                self.symbolized("vcpi.raw")?;
                self.sampled("vcpi.raw.prof", "", variant)
            }
            Variant::Hot => self.sampled("vcpi.raw.prof", HOT, variant),
            Variant::Bolt => self.laid_out(Variant::Plain, variant),
            Variant::VcpiBolt => self.laid_out(Variant::Vcpi, variant),
            Variant::Proftext => {
                self.by_pgo(variant, false, "counting")?;
                self.by_pgo(variant, true, variant.name())
            }
            Variant::Propeller | Variant::Gcov => self.by_pgo(variant, true, variant.name()),
        }
    }

    /// Builds the program with more flags.
    fn compile(&self, more: &str, variant: Variant, name: &str) -> Result<()> {
        self.compile_by(&[], more, variant, name)
    }

    /// Builds the program by a command that chooses compilers, or by those of the variant.
    fn compile_by(
        &self,
        before: &[OsString],
        more: &str,
        variant: Variant,
        name: &str,
    ) -> Result<()> {
        let is_rust = self.program.language == Language::Rust;
        let line = match is_rust {
            true => self.program.build.to_owned(),
            false => format!(
                "CC=\"$CC $FLAGS\"; CXX=\"$CXX $FLAGS\"; {}",
                self.program.build
            ),
        };
        let shell = ["sh", "-ec", &line].map(OsString::from);
        let words: Vec<OsString> = match is_rust {
            // The line itself says where cargo is run.
            true => shell
                .into_iter()
                .chain(["sh".into()])
                .chain(before.iter().cloned())
                .collect(),
            false => before.iter().cloned().chain(shell).collect(),
        };
        let (compilers, flags) = match variant {
            Variant::Gcc | Variant::Gcov => (["gcc", "g++"].map(str::to_owned), GCC.to_owned()),
            _ => {
                let linker = format!("--ld-path=/usr/bin/{}", tool("ld.lld"));
                (["clang", "clang++"].map(tool), format!("{CLANG} {linker}"))
            }
        };
        let [c, cpp] = compilers;
        let (program, args) = words.split_first().context("no command")?;
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.source())
            .envs(self.variables());
        command
            .env("OUT", self.folder.join(name))
            .env("CC", c)
            .env("CXX", cpp);
        command.env("FLAGS", format!("{flags} {more}"));
        if is_rust {
            // The flags for samples are among those that stable compilers keep for themselves.
            command.env("RUSTC_BOOTSTRAP", "1");
            command.env("RUSTFLAGS", format!("{RUSTC} {more}"));
        }
        run(command.stdin(Stdio::null()))
    }

    /// Builds by `vcpi pgo build`: with the profile of the build that is compared with, or to tell
    /// what counters would count.
    fn by_pgo(&self, variant: Variant, with_profile: bool, name: &str) -> Result<()> {
        let mut words: Vec<OsString> = vec![self.own.vcpi.clone().into()];
        words.extend(["pgo", "build", "--by", variant.name()].map(OsString::from));
        if variant == Variant::Proftext {
            words.extend(["--skeleton".into(), self.folder.join("skeleton").into()]);
        }
        if with_profile {
            let from = variant.baseline();
            words.extend(["-i".into(), self.recording(from)?.into()]);
            words.extend(["--image".into(), self.build(from).into()]);
        }
        words.push("--".into());
        self.compile_by(&words, "", variant, name)
    }

    /// Runs the load to train on, in a folder of its own, by a program that lies here.
    fn train(&self, name: &str, before: &[OsString]) -> Result<()> {
        let at = self.folder.join("training");
        std::fs::create_dir_all(&at).context("making a folder")?;
        let mut words = before.to_vec();
        words.extend(["sh", "-ec", self.program.train].map(OsString::from));
        let (program, args) = words.split_first().context("no command")?;
        let mut command = Command::new(program);
        command.args(args).current_dir(&at).envs(self.variables());
        command.env("PROG", self.folder.join(name));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let status = command.status();
        let status = status.with_context(|| format!("running {}", shown(&command)))?;
        if !status.success() {
            bail!("{} failed ({status})", shown(&command));
        }
        std::fs::remove_dir_all(at).context("removing a folder")
    }

    fn instrumented(&self) -> Result<()> {
        let counters = self.folder.join("counters");
        let profile = self.folder.join("counters.profdata");
        let is_rust = self.program.language == Language::Rust;
        let [generate, using] = match is_rust {
            true => ["-Cprofile-generate=", "-Cprofile-use="],
            false => ["-fprofile-generate=", "-fprofile-use="],
        };
        self.compile(
            &format!("{generate}{}", counters.display()),
            Variant::Instrumented,
            "counting",
        )?;
        self.train("counting", &[])?;
        let mut merge = Command::new(tool("llvm-profdata"));
        merge.args(["merge", "-o"]).arg(&profile).arg(&counters);
        run(&mut merge)?;
        let using = format!("{using}{}", profile.display());
        let variant = Variant::Instrumented;
        self.compile(&using, variant, variant.name())
    }

    /// The recording of a build, which is made unless it is there.
    pub(super) fn recording(&self, variant: Variant) -> Result<PathBuf> {
        let database = self.folder.join(format!("{}.db", variant.name()));
        let done = self.folder.join(format!("{}.recorded", variant.name()));
        if !done.is_file() {
            remove_database(&database)?;
            let words = [
                self.own.vcpid.clone().into(),
                "record".into(),
                "-q".into(),
                "--rate".into(),
                "1000".into(),
                "--frames".into(),
                "16".into(),
                "-o".into(),
                database.clone().into(),
                "--".into(),
            ];
            self.train(variant.name(), &words)?;
            std::fs::write(done, "").context("writing a note")?;
        }
        Ok(database)
    }

    /// Exports a build's recording to a file. What the export rests on is kept beside it.
    fn export(&self, kind: &[&str], variant: Variant, file: &str) -> Result<()> {
        let database = self.recording(variant)?;
        let mut command = Command::new(&self.own.vcpi);
        command.arg("export").args(kind).arg("-i").arg(database);
        command.arg("--image").arg(self.build(variant));
        command.arg("-o").arg(self.folder.join(file));
        let output = command.stdin(Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            bail!("{}: {}", shown(&command), said.trim_end());
        }
        let said = said.replace(&format!("{}/", self.folder.display()), "");
        std::fs::write(self.folder.join(format!("{file}.said")), said)?;
        Ok(())
    }

    /// The samples of the plain build's instructions, in the form of an export.
    fn samples(&self, database: &Path) -> Result<String> {
        let image = text(&self.build(Variant::Plain));
        let words = ["top", "--by", "instruction", "--image", &image];
        let report = self.own.report(database, &words)?;
        let rows = report.as_array().context("no rows")?;
        let row = |row: &serde_json::Value| {
            let address = row["address"].as_str()?.strip_prefix("0x")?.to_owned();
            Some((address, row["samples"].as_u64()?))
        };
        let rows: Vec<(String, u64)> = rows.iter().filter_map(row).collect();
        let mut lines = format!("{}\n", rows.len());
        for (address, samples) in rows {
            // Writing to a string does not fail.
            let _ = writeln!(lines, "{address}-{address}:{}", samples * 1000);
        }
        Ok(lines + "0\n")
    }

    /// Has llvm-profgen read a file of counts.
    fn symbolized(&self, file: &str) -> Result<()> {
        let at = |name: &str| text(&self.folder.join(name));
        let mut command = Command::new(tool("llvm-profgen"));
        command.args([
            format!("--unsymbolized-profile={}", at(file)),
            format!("--binary={}", text(&self.build(Variant::Plain))),
            "--use-offset=0".to_owned(),
            "--format=text".to_owned(),
            format!("--output={}", at(&format!("{file}.prof"))),
        ]);
        run(&mut command)
    }

    /// Builds by a profile of samples.
    fn sampled(&self, profile: &str, option: &str, variant: Variant) -> Result<()> {
        let profile = self.folder.join(profile);
        let [using, llvm] = match self.program.language {
            Language::Rust => ["-Zprofile-sample-use=", "-Cllvm-args="],
            _ => ["-fprofile-sample-use=", "-mllvm "],
        };
        let mut flags = format!("{using}{}", profile.display());
        if !option.is_empty() {
            flags += &format!(" {llvm}{option}");
        }
        self.compile(&flags, variant, variant.name())
    }

    /// Lays out a build anew.
    fn laid_out(&self, from: Variant, to: Variant) -> Result<()> {
        let name = to.name();
        let file = |ending: &str| self.folder.join(format!("{name}.{ending}"));
        let old = self.build(from);
        self.export(&["bolt"], from, &format!("{name}.raw"))?;
        let mut command = Command::new(tool("perf2bolt"));
        command.arg(&old).arg("--pa");
        command
            .arg("-p")
            .arg(file("raw"))
            .arg("-o")
            .arg(file("fdata"));
        quiet(&mut command)?;
        let new = file("new");
        let mut command = Command::new(tool("llvm-bolt"));
        command.arg(&old).arg("-o").arg(&new);
        command.arg("-data").arg(file("fdata")).args(LAYOUT);
        quiet(&mut command)?;
        std::fs::rename(new, self.build(to)).context("naming a build")
    }
}

/// Runs a program that says much, which is shown if it fails.
fn quiet(command: &mut Command) -> Result<()> {
    progress(&shown(command));
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("running {}", shown(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed ({}): {said}", shown(command), output.status);
    }
    Ok(())
}
