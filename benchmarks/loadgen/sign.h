// Requests that a user signs, as RocketMQ's clients do (HMAC-SHA1 over fields and body).
#pragma once
#include <stddef.h>

// From now on requests are signed; both texts are kept. Without it nothing below does anything.
void sign_as(const char *access_key, const char *secret_key);

// Writes the two fields into extFields, behind its brace; returns what is behind them.
char *put_signer(char *at);

// Signs a whole frame that has both fields.
void sign(char *frame);

// As `sign` for the first SIGNED_MOST requests, which a broker may look at on every connection; later
// ones have a text of the same length, each another: what signing costs is its client's own.
void sign_first(char *frame);
