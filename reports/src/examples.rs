//! A worked example for each report, for its help and its manual page. What they print is what
//! these commands printed, with columns cut and rows left out.

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
    ("loads", LOADS),
    ("redundant", REDUNDANT),
    ("syscalls", SYSCALLS),
    ("locks", LOCKS),
    ("prio", PRIO),
    ("irq", IRQ),
    ("hints", HINTS),
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
  vcpid record --context caller --capture args,vector --vectors auto -- povray +Iscene.pov
  vcpi args numchanges

  pov::numchanges: (87.8% 0x4) (65.6% 0x7fc429801b40) (9.6% 4882.8125)  [270 calls]
      (int np, const polynomial *sseq, double a)
      208 from pov::sbisect (0x2238a5): (93.8% 0x4) (68.8% 0x7fc429801b40) (14.7% 4882.8125)

  The first argument is 4 in most calls: a version of numchanges for 4 would do. The third one is
  10,000,000 / 2048: the caller halves an interval that is far too long.";

const CG: &str = "\
Example: who spends the time in a function?
  vcpi cg polyeval

  pov::polyeval 39.6% from pov::regula_falsa (0x223745)  [569]
  pov::polyeval 30.8% from pov::numchanges (0x2235a8)  [446]
  pov::polyeval 26.3% from pov::numchanges (0x2235f4)  [375]

  Of the time in polyeval 39.6 % is under the call at 0x223745 in regula_falsa. `vcpi cg --up`
  shows whole paths, where call stacks were recorded.";

const BLKS: &str = "\
Example: which computations have the same result each time?
  vcpi blks --invariant 99 -n 1

  sqlite3VdbeMemShallowCopy 0xfb62d..0xfb634  (libsqlite3.so.0.8.6)  62.7M cycles,
      constants would save up to 62.7M
  cycles   s#  address  instruction                     value profile
   2.84M  220  0xfb62d  movzx eax, word ptr [rdi+0x14]  eax: (100.0% 0x4)
   45.7M  223  0xfb631  and ah, -0x71                   ah: (100.0% 0x0)
   14.2M  223  0xfb634  or eax, edx                     eax: (100.0% 0x4004)

  What comes out the same in 99 % of the windows may be computed once, or not at all.";

const BRANCHES: &str = "\
Example: which branches go the same way each time?
  vcpi branches --function sqlite3GetVarint -n 2

  taken%     between  taken  not taken  unknown  address  branch in
     1.6     0.9-2.6     41       2562       17  0xe8d5e  sqlite3GetVarint+0xe
   100.0  99.5-100.0   2441          0        0  0xe8d88  sqlite3GetVarint+0x38

  A `taken%` near 0 or 100 says that the branch can be predicted; 50 that it may cost much.";

const TARGETS: &str = "\
Example: which indirect calls have one target nearly always?
  vcpi targets --function even_target

  percent    between  count  target         address
  call at 0x19a1 in even_target+0x11 (shares), 6621 known, 0 unknown
     95.3  93.6-96.5   6307  target_common   0x14f0
      4.7    3.5-6.4    314  target_rare     0x1500

  A call that has one target in 95 % of the windows can test for it and call it directly.";

const COPIES: &str = "\
Example: how much does memcpy copy at a time, and for whom?
  vcpi copies -n 2

  time%  cycles  calls  function                        sizes
  13.37   1.12G   9481  __memcpy_avx512_unaligned_erms  (72.4% 16) (21.2% 100) (6.4% 2000)
  13.37   1.12G   9481    from take (0x1394)            (72.6% 16) (21.1% 100) (6.3% 2000)

  Where a call site copies the same few bytes each time, plain moves would do.";

const LOADS: &str = "\
Example: which loads walk memory in steps, and which at random?
  vcpid record --capture stride -- ./loads
  vcpi loads -n 3

  time%  cycles  loads  line%  page%  load in                  pattern    strides
   7.33    188M   2708   99.9   98.9  scattered+0x2d (0x133d)  scattered  (varies)
   3.35   86.1M   1821  100.0  100.0  by_page+0x10 (0x12f0)    stride     (99.5% +4160) ...
   2.86   73.6M   1626  100.0    6.7  backwards+0x18 (0x12c8)  stride     (100.0% -256)

  A prefetch pays where `line%` is high and the processor cannot foresee the address.";

const REDUNDANT: &str = "\
Example: which stores change nothing, and which loads bring the same again?
  vcpid record --capture redundant -- ./loads
  vcpi redundant -n 2

  time%  cycles  redundant%     between  seen  kind   in
   1.75   44.7M       100.0  92.4-100.0   694  store  store_same+0x1b (0x136b)
   0.47   11.9M       100.0  94.6-100.0  1034  load   one_address+0x10 (0x1240)

  The load can be kept in a register, unless another thread stores there.";

const SYSCALLS: &str = "\
Example: what does a program ask the kernel for, and where?
  vcpid record --capture syscall -- ./loads
  vcpi syscalls

  seen  call         from                 in                 arguments
   414  lseek        seeks+0x18 (0x1428)  call+0xc (0x140c)  (100.0% 0x3e8), (100.0% 0x4d)
   374  getpriority  asks+0x12 (0x1452)   call+0xc (0x140c)  (100.0% 0x0), (100.0% 0x0)

  The answer to a question that is always the same can be kept.";

const LOCKS: &str = "\
Example: where do threads meet at locks?
  vcpid record --capture ea,syscall -- ./program
  vcpi locks

  time%  cycles  seen  kind           in                                 addresses
   1.65   10.3M    66  lock           pthread_mutex_lock+0x48 (0x8c3b8)  (100.0% 0x56378d37f080)
   0.17   1.09M        kernel         futex_hash
   0.00       0     1  (100.0% wake)  __lll_lock_wake+0x11 (0x86191)

  All threads lock one mutex, and the kernel has work with those that wait.";

const PRIO: &str = "\
Example: how much time has each priority?
  vcpid record --capture sched -- nice -n 7 ./loads
  vcpi prio

  time%  cycles  class       priority
  99.88   2.58G  other       nice 7
   0.07   1.84M  other       nice 0
   0.02    635k  interrupts
   0.03    724k  unknown

  Real-time threads have rows of their own. Interrupts come to whoever runs, and are apart.";

const IRQ: &str = "\
Example: which functions run in interrupts, or with interrupts off?
  vcpid record --capture sched -- nice -n 7 ./loads
  vcpi irq

  time%  cycles  level    interrupts  function
   0.02    635k  softirq  on          run_timer_softirq

  What takes long here delays everything else on its processor.";

const HINTS: &str = "\
Example: which values are a special case in the source worth?
  vcpi hints -n 1

  17.32% predicted (15.49 to 19.09)  modulus: base in digits
      arg1 = 7 in 96.1% (94.1 to 97.4) of 689 known values, at 0x1244 in ./plain
      special.c:15  sum += number % base;
      88.53% of all cycles are under it; it decides 18.03% (512 samples): 0 instructions constant,
      1 division by a number
          __builtin_expect(base == 7, 1) ? x % 7 : x % base

  Apply the patch, build, and measure before you keep it:
  vcpi hints --verify './plain 8000' './patched 8000'";

const DIFF: &str = "\
Example: what did a change do?
  vcpid record -o old.db -- ./old/shop
  vcpid record -o new.db -- ./new/shop
  vcpi diff old.db new.db

  before%  after%  change      samples     p  function
    61.82   66.58   +4.76  4064 > 3361  1e-7  evaluate
    13.37   10.52   -2.85    898 > 530  3e-6  __memcpy_avx512_unaligned_erms
     2.65    1.71   -0.94     167 > 86  8e-4  clear

  Functions stand here if their share of the time changed by more than chance explains, and below
  them the values that changed.";

const STATUS: &str = "\
Example: how much was seen, and what was lost?
  vcpi status

  epoch  from                       to                         samples  command
      1  2026-11-26 10:56:06+00:00  2026-11-26 10:56:42+00:00     6326  sh -c for i in 1 2 3
  counter                                   count
  collected
    samples                                  6326
    windows                                  5445
    value_events                        1,361,930
  lost
    malformed_records                           0
    names_of_images                             0

  Each loss that happened says what it means, and what to do.";
