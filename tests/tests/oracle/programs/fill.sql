CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price REAL, part INTEGER);
INSERT INTO item
  WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
  SELECT i, printf('item %d', i * 7919 % 10007), i * 0.37, i % 61 FROM n;
CREATE INDEX by_name ON item(name);
