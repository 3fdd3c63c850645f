-- Files that this one was made of: a reader that finds one of them beside it leaves that one out.
CREATE TABLE joined (
    name TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
