-- People ask for a run by its name: the newest of it within a tenant.
CREATE INDEX runs_named ON runs (cluster, namespace_uid, name, created_at);
