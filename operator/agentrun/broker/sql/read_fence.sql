SELECT fence FROM fence WHERE run = ?
