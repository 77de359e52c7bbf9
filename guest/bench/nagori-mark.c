// nagori-mark: executes a marker, for scripts.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nagori_mark.h"

static const char USAGE[] =
    "usage: nagori-mark MARKER [VALUE]\n"
    "  roi-begin, roi-end     the region of interest\n"
    "  stats-reset            statistics start anew\n"
    "  stats-dump [NUMBER]    they are kept so far, under a number\n"
    "  method NAME            dram, coarse, fine or extended\n"
    "  label TEXT|NUMBER      a point in time gets a name of up to 8 characters, or a number\n"
    "  snapshot [NUMBER]      a snapshot is wanted here\n"
    "  stop [CODE]            the run ends\n"
    "Needs no privileges. Does nothing where markers are switched off, or on another machine.\n";

static int usage(void)
{
    fputs(USAGE, stderr);
    return 2;
}

static int number(const char *text, unsigned long *value)
{
    char *end;
    errno = 0;
    *value = strtoul(text, &end, 0);
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    const char *text = argc > 2 ? argv[2] : NULL;
    unsigned long value = 0;
    if (argc < 2 || argc > 3)
        return usage();
    if (strcmp(name, "--help") == 0)
        return fputs(USAGE, stdout) < 0;

    if (strcmp(name, "method") == 0) {
        static const char *const METHODS[] = {"dram", "coarse", "fine", "extended"};
        while (text != NULL && value < 4 && strcmp(text, METHODS[value]) != 0)
            value++;
        if (text == NULL || value == 4)
            return usage();
        nagori_method(value);
        return 0;
    }
    if (strcmp(name, "label") == 0) {
        if (text == NULL || (!number(text, &value) && strlen(text) > 8))
            return usage();
        nagori_label(number(text, &value) ? value : nagori_text(text));
        return 0;
    }
    int valued = text != NULL;
    if (valued && !number(text, &value))
        return usage();
    if (strcmp(name, "roi-begin") == 0 && !valued)
        nagori_roi_begin();
    else if (strcmp(name, "roi-end") == 0 && !valued)
        nagori_roi_end();
    else if (strcmp(name, "stats-reset") == 0 && !valued)
        nagori_stats_reset();
    else if (strcmp(name, "stats-dump") == 0)
        nagori_stats_dump(value);
    else if (strcmp(name, "snapshot") == 0)
        nagori_mark(NAGORI_MARK_SNAPSHOT, value);
    else if (strcmp(name, "stop") == 0 && value <= 0xffffffff)
        nagori_stop((unsigned)value);
    else
        return usage();
    return 0;
}
