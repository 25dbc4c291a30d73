INSERT INTO fence (run, fence) VALUES (?, ?)
ON CONFLICT (run) DO UPDATE SET fence = max(fence, excluded.fence)
