-- The database of a small game: twelve code tables that rarely change, six log tables that grow.
DO $$
DECLARE
  code text;
BEGIN
  FOREACH code IN ARRAY ARRAY[
    'item', 'quest', 'npc', 'skill', 'zone', 'class', 'rank', 'shop', 'drop_rate', 'achievement', 'season', 'server'
  ] LOOP
    EXECUTE format(
      'CREATE TABLE IF NOT EXISTS %I (id integer PRIMARY KEY, name text NOT NULL, updated_at timestamptz NOT NULL)', code
    );
    EXECUTE format(
      'INSERT INTO %I SELECT n, %L || n, clock_timestamp() FROM generate_series(1, 10 + length(%L)) AS n
       ON CONFLICT DO NOTHING', code, code || ' ', code
    );
  END LOOP;
END $$;

DO $$
DECLARE
  log text;
BEGIN
  FOREACH log IN ARRAY ARRAY['login', 'logout', 'buy', 'trade', 'chat', 'raid'] LOOP
    EXECUTE format(
      'CREATE TABLE IF NOT EXISTS %I (
         seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
         player text NOT NULL,
         what text NOT NULL,
         logged_at timestamptz NOT NULL DEFAULT clock_timestamp()
       )', log
    );
    EXECUTE format(
      'INSERT INTO %I (player, what) SELECT ''player-'' || n %% 97, %L FROM generate_series(1, 200) AS n', log, log
    );
  END LOOP;
END $$;
