-- A shop of a game: players, and what they bought in the last three days.
CREATE TABLE IF NOT EXISTS player (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL,
  joined_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE IF NOT EXISTS purchase (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  player bigint NOT NULL,
  item text NOT NULL,
  price numeric(12, 2) NOT NULL,
  bought_at timestamptz NOT NULL
);
INSERT INTO player (name) SELECT 'player ' || n FROM generate_series(1, 500) AS n;
INSERT INTO purchase (player, item, price, bought_at)
  SELECT 1 + n % 500, 'item ' || n % 37, (n % 9000) / 100.0, clock_timestamp() - n * interval '5 seconds'
  FROM generate_series(1, 50000) AS n;
