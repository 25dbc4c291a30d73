INSERT INTO verdict (run, step, attempt, fence, decided_at, jws) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (run, step, attempt, fence) DO NOTHING
