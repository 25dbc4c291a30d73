INSERT INTO signing_key (kid, first_used_at) VALUES (?, ?) ON CONFLICT (kid) DO NOTHING
