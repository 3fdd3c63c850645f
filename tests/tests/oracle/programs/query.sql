SELECT part, count(*), avg(price), max(name) FROM item WHERE name LIKE '%7%' GROUP BY part ORDER BY 3;
SELECT a.name, b.price FROM item a JOIN item b ON b.name = printf('item %d', a.part) LIMIT 500;
UPDATE item SET price = price * 1.1 WHERE id % 7 = 3;
