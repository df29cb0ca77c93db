#include "base/env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/tune.h"

extern char **environ;

struct fr_env fr_env;

/* The ways that can be left out, in the order of the table, each behind a comma and a space. */
#define OFF_WORDS (off_words + 2)
static const char off_words[] = ""
#define WORD_OFF(name) ", " #name
#define WORD_ALWAYS(name)
#define WAY(name, off, ...) WORD_##off(name)
#include "base/ways.def"
    ;

#define LARGE             (1 << 30)
#define RANGE(lo, hi)     .least = lo, .most = hi
#define ONE_OF(list)      .words = list
#define SOME_OF(list)     .words = list, .several = true
#define ANY               .words = NULL
#define TUNED             .take = fr_tune_take
#define ENV_INT(field, d) .as_int = &fr_env.field, .default_text = #d
#define ENV_STR(field, d) .as_str = fr_env.field, .default_text = d
#define ENV_SET(field, d) .as_bits = &fr_env.field##_bits, ENV_STR(field, d)
#define ENV(kind, env_name, env_field, dflt, allowed, text) \
    {.name = env_name, .field = #env_field, .help = text, ENV_##kind(env_field, dflt), allowed},
const struct fr_setting fr_settings[] = {
#include "base/env.def"
    {.name = NULL},
};
#undef ENV_INT
#undef ENV_STR
#undef ENV_SET

static bool
is_word(const char *words, const char *text, size_t n)
{
    for (size_t len; *words; words += len, words += strspn(words, ", ")) {
        len = strcspn(words, ", ");
        if (len == n && !memcmp(words, text, n))
            return true;
    }
    return false;
}

bool
fr_setting_allows_int(const struct fr_setting *s, long value)
{
    return value >= s->least && value <= s->most;
}

bool
fr_setting_allows_text(const struct fr_setting *s, const char *text)
{
    if (strlen(text) >= FR_ENV_STR_LEN)
        return false;
    if (s->take)
        return s->take(text, false);
    if (!s->words || !strcmp(text, s->default_text))
        return true;
    if (!s->several)
        return is_word(s->words, text, strlen(text));
    for (size_t len; *text; text += len, text += strspn(text, ", ")) {
        len = strcspn(text, ", ");
        if (!is_word(s->words, text, len))
            return false;
    }
    return true;
}

void
fr_setting_put_text(const struct fr_setting *s, const char *text)
{
    const char *word = s->words;

    strcpy(s->as_str, text);
    if (s->take)
        s->take(text, true);
    if (!s->as_bits)
        return;
    *s->as_bits = 0;
    for (unsigned bit = 1; *word; bit <<= 1, word += strcspn(word, ", "), word += strspn(word, ", "))
        if (is_word(text, word, strcspn(word, ", ")))
            *s->as_bits |= bit;
}

void
fr_setting_allowed(const struct fr_setting *s, char *out, size_t cap)
{
    if (s->as_int)
        snprintf(out, cap, "a whole number from %d to %d", s->least, s->most);
    else if (s->take)
        snprintf(out, cap, "name=value of some of the machine's numbers, which python -m frit.config lists");
    else if (s->words)
        snprintf(out, cap, "%s of %s", s->several ? "some" : "one", s->words);
    else
        snprintf(out, cap, "a text of less than %d bytes", FR_ENV_STR_LEN);
}

/* False if the text is not for this setting, which then stays. */
static bool
set(const struct fr_setting *s, const char *text)
{
    char *end;
    long  v;

    if (s->as_str) {
        if (!fr_setting_allows_text(s, text))
            return false;
        fr_setting_put_text(s, text);
        return true;
    }
    v = strtol(text, &end, 10);
    if (*end || end == text || !fr_setting_allows_int(s, v))
        return false;
    *s->as_int = (int)v;
    return true;
}

/* ---- names that are nearly those of settings ---- */

enum { MOST_LETTERS = 40, NEAR = 2 };

/* How many letters are to be changed, left out or put in to make one of the other (Wagner and Fischer, 1974). */
static int
distance(const char *a, size_t n_a, const char *b)
{
    int    row[MOST_LETTERS + 1];
    size_t n_b = strlen(b);

    if (n_a > MOST_LETTERS || n_b > MOST_LETTERS)
        return MOST_LETTERS;
    for (size_t j = 0; j <= n_b; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= n_a; i++)
        for (size_t j = 0, before = 0; j <= n_b; j++) { /* before: of one letter less of both */
            int here = row[j], least = here + 1;

            if (j > 0) {
                least = row[j - 1] + 1 < least ? row[j - 1] + 1 : least;
                least = (int)before + (a[i - 1] != b[j - 1]) < least ? (int)before + (a[i - 1] != b[j - 1]) : least;
            }
            row[j] = least;
            before = (size_t)here;
        }
    return row[n_b];
}

/* Says of a variable that is no setting which one may be meant. */
static void
check_name(const char *name, size_t n)
{
    const struct fr_setting *nearest = NULL;
    int                      least = NEAR + 1;

    for (const struct fr_setting *s = fr_settings; s->name; s++) {
        int d = distance(name, n, s->name);

        if (d == 0)
            return;
        if (d < least) {
            least = d;
            nearest = s;
        }
    }
    if (nearest)
        fr_warn_once(nearest->name, "%.*s is no setting: did you mean %s?", (int)n, name, nearest->name);
}

void
fr_env_load(void)
{
    char        allowed[256];
    const char *text;

    for (const struct fr_setting *s = fr_settings; s->name; s++)
        set(s, s->default_text);
    for (const struct fr_setting *s = fr_settings; s->name; s++) {
        text = getenv(s->name);
        if (!text || !*text || set(s, text))
            continue;
        fr_setting_allowed(s, allowed, sizeof allowed);
        fr_warn_once(s->name, "%s=%.60s is not %s; using \"%s\"", s->name, text, allowed, s->default_text);
    }
    for (char **v = environ; v && *v; v++)
        if (!strncmp(*v, "FRIT_", 5))
            check_name(*v, strcspn(*v, "="));
}
