-- The layout that flushes are written in: many rows in one blob. `docs/format.md` describes the
-- blobs. The tables `cycles`, `hotlist`, `tuple`, `branch`, `call` and `pc` have what older programs
-- wrote; adding up is as right over both.

-- A flush, or what became of several: `grain` 0 is a flush as it was written. `replaced` is how many
-- flushes the row stands for.
ALTER TABLE flush ADD COLUMN grain INTEGER NOT NULL DEFAULT 0;
ALTER TABLE flush ADD COLUMN replaced INTEGER NOT NULL DEFAULT 1;

-- What lists were captured of: see `parameter` of the table `hotlist`.
CREATE TABLE parameter (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

-- Rows of one kind whose PCs are in one bucket: addresses of an image that are the same but for
-- their lowest bits, 16 of values, 18 of branches, 22 of cycles and calls. There may be several
-- for one place.
CREATE TABLE chunk (
    id      INTEGER PRIMARY KEY,
    flush   INTEGER NOT NULL REFERENCES flush(id),
    kind    INTEGER NOT NULL,            -- 1 cycles, 2 values, 3 values by call site, 4 branches,
                                         -- 5 calls
    image   INTEGER NOT NULL REFERENCES image(id),
    bucket  INTEGER NOT NULL,            -- the address of its PCs without its lowest bits
    subject INTEGER NOT NULL REFERENCES subject(id),
    data    BLOB NOT NULL
) STRICT;

-- Flushes come in order, so this grows at its end alone.
CREATE INDEX chunk_place ON chunk (flush, kind, image, bucket);

-- Encodings of instructions, each written once: of those that were hot, and of images whose code no
-- file is known to have.
CREATE TABLE code (
    id     INTEGER PRIMARY KEY,
    image  INTEGER NOT NULL REFERENCES image(id),
    bucket INTEGER NOT NULL,
    data   BLOB NOT NULL
) STRICT;

CREATE INDEX code_place ON code (image, bucket);
