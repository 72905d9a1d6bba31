-- The tables of a game: 40 logs, 5 code tables that mark deleted rows, and 5 that are loaded whole.
DO $$
DECLARE name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['login', 'logout', 'chat', 'buy', 'sell', 'trade', 'raid', 'quest', 'craft', 'loot', 'level', 'death', 'revive', 'duel', 'join', 'leave', 'friend', 'block', 'mail', 'bid', 'pet', 'mount', 'house', 'fish', 'mine', 'cook', 'emote', 'travel', 'dungeon', 'arena', 'battle', 'season', 'badge', 'title', 'reward', 'mission', 'penalty', 'session', 'vote', 'gift'] LOOP
    EXECUTE format('CREATE TABLE IF NOT EXISTS %I (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, '
      'player bigint NOT NULL, item bigint NOT NULL, amount numeric(12, 2) NOT NULL, logged_at timestamptz NOT NULL)', 'log_' || name);
    EXECUTE format('INSERT INTO %I (player, item, amount, logged_at) SELECT 1 + n %% 500, 1 + n %% 37, (n %% 9000) / 100.0, '
      'clock_timestamp() - n * interval ''2 minutes'' FROM generate_series(1, 2000) AS n', 'log_' || name);
  END LOOP;
  FOREACH name IN ARRAY ARRAY['item', 'monster', 'map', 'skill', 'npc'] LOOP
    EXECUTE format('CREATE TABLE IF NOT EXISTS %I (id bigint PRIMARY KEY, name text NOT NULL, deleted boolean NOT NULL DEFAULT false, '
      'updated_at timestamptz NOT NULL DEFAULT clock_timestamp())', 'code_' || name);
    EXECUTE format('INSERT INTO %I (id, name) SELECT n, %L || n FROM generate_series(1, 200) AS n', 'code_' || name, name || ' ');
  END LOOP;
  FOREACH name IN ARRAY ARRAY['price', 'drop_rate', 'experience', 'season_code', 'calendar'] LOOP
    EXECUTE format('CREATE TABLE IF NOT EXISTS %I (id bigint PRIMARY KEY, name text NOT NULL, value numeric(12, 2) NOT NULL)',
      'code_' || name);
    EXECUTE format('INSERT INTO %I SELECT n, %L || n, n / 10.0 FROM generate_series(1, 200) AS n', 'code_' || name, name || ' ');
  END LOOP;
END $$;
