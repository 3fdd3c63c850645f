-- What lay where in the memory of a process, as far as recorded values point there: a reader tells
-- pointers by it. Who may see the values may see it: `subject` is their access tag. A page has 4096
-- bytes.
CREATE TABLE region (
    process INTEGER NOT NULL REFERENCES process(id),
    subject INTEGER NOT NULL REFERENCES subject(id),
    first   INTEGER NOT NULL,            -- its first page
    kind    INTEGER NOT NULL,            -- 1 the heap that brk moves the end of, 2 a stack,
                                         -- 3 other memory without a file, 4 an image
    pages   INTEGER NOT NULL,            -- the most that there were
    image   INTEGER REFERENCES image(id),-- of an image, else NULL
    shown   INTEGER,                     -- the page of the image's addresses that is the first
    PRIMARY KEY (process, subject, first, kind)
) STRICT, WITHOUT ROWID;
