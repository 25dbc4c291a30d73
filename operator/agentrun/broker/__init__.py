"""The broker: gate 3. The only reader of Secrets; authorises, signs, injects credentials, calls models."""
