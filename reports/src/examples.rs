//! A worked example for each report, for its help and its manual page.

/// The reports' names, and an example for each.
pub(crate) const ALL: &[(&str, &str)] = &[
    ("top", TOP),
    ("list", LIST),
    ("args", ARGS),
    ("cg", CG),
    ("blks", BLKS),
    ("branches", BRANCHES),
    ("targets", TARGETS),
    ("copies", COPIES),
    ("diff", DIFF),
    ("status", STATUS),
];

const TOP: &str = "\
Example: where does the time of a query go?
  vcpid record -- sqlite3 test.db < query.sql
  vcpi top -n 3

  percent  cycles  samples  function                 image
    24.51   3.93G     1555  sqlite3VdbeExec          libsqlite3.so.0.8.6
    13.42   2.15G      866  sqlite3BtreeTableMoveto  libsqlite3.so.0.8.6
     3.79    608M      242  sqlite3GetVarint         libsqlite3.so.0.8.6

  A quarter of all cycles is in one function: `vcpi list sqlite3VdbeExec` shows which of its
  instructions they are at, and with which values.";

const LIST: &str = "\
Example: which values does a function see?
  vcpi list sqlite3BtreeCursorHasMoved

  cycles    s#  v#  1/p  address  instruction            value profile
       0  1073  25  1.0  0x3b8b0  xor eax, eax           arg0: (8.0% 0x55713b7aa180) ...
   84.4M  1074   1  1.0  0x3b8b5  setne al               al: (100.0% 0x0)

  1074 values of al were known, one of them distinct: in all windows the function said no. Its
  argument took 25 values.";

const ARGS: &str = "\
Example: which arguments do calls have that are nearly always the same?
  vcpi args polyeval

  polyeval: (100.0% 0x4) (12.1% 0x7ffe9d10)
      from numchanges (0x1194): (100.0% 0x4) (14.0% 0x7ffe9d10)

  The first argument is 4 at every call: a version of polyeval for 4 would do.";

const CG: &str = "\
Example: who spends the time in a function?
  vcpi cg polyeval

  polyeval 61.0% from numchanges (0x1194)  [852]
  polyeval 39.0% from regula_falsa (0x12a0)  [545]

  Of the time in polyeval 61 % is under the call at 0x1194 in numchanges. `vcpi cg --up` shows
  whole paths, where call stacks were recorded.";

const BLKS: &str = "\
Example: which computations have the same result each time?
  vcpi blks --invariant 99

  Each run of instructions is shown with the value of each result. What comes out the same in 99 %
  of the windows may be computed once, outside the loop.";

const BRANCHES: &str = "\
Example: which branches go the same way each time?
  vcpi branches --function parse_header

  A `taken%` near 0 or 100 says that the branch can be predicted; 50 that it may cost much.";

const TARGETS: &str = "\
Example: which indirect calls have one target nearly always?
  vcpi targets --image libxml2.so.2

  A call that has one target in 99 % of the windows can test for it and call it directly.";

const COPIES: &str = "\
Example: how much does memcpy copy at a time, and for whom?
  vcpi copies -n 20

  Where a call site copies the same few bytes each time, plain moves would do.";

const DIFF: &str = "\
Example: what did a change do?
  vcpid record -o before.db -- ./solve input
  vcpid record -o after.db -- ./solve.new input
  vcpi diff before.db after.db

  Functions stand here if their share of the time changed by more than chance explains, and below
  them the values that changed.";

const STATUS: &str = "\
Example: how much was seen, and what was lost?
  vcpi status -i vcpi.db

  Epochs, samples and values are counted, and each loss by its reason.";
