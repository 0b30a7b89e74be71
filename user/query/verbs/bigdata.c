// SPDX-License-Identifier: GPL-2.0-only
/* Generate rows of rankings and uservisits. doc/query-data.md describes the distribution of each column. */
#include "bigdata.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "values/random.h"

#define AGENTS 2000 /* a visit draws each of these with equal probability */
#define WORDS 1000
#define NAME 32	   /* bytes of an agent or a word, including the terminating 0 */
#define DAYS 15461 /* number of days from 1970-01-01 to 2012-04-30 */

enum { LINKS, PAGES, URLS, VISITS };

/*
 * Numbers of copies of the agents that occur several times among the AGENTS. Every other agent occurs once. There are
 * 521 different agents.
 */
static const uint16_t known_agents[] = {160, 60, 260, 180, 140, 140, 80, 30, 16, 120, 60, 80, 10, 10, 6, 16, 14,
					16,  12, 22,  15,  7,	6,   7,	 6,  4,	 2,   10, 5,  5,  7,  2, 4};
#define KNOWN (sizeof(known_agents) / sizeof(*known_agents))

/* Country codes of ISO 3166 with a language. A visit draws a country from this list with equal probability. */
static const char locales[][7] = {
	"ALB-SQ", "ARE-AR", "ARG-ES", "AUS-EN", "AUT-DE", "BEL-FR", "BEL-NL", "BGR-BG", "BHR-AR", "BIH-SR", "BLR-BE",
	"BOL-ES", "BRA-PT", "CAN-EN", "CAN-FR", "CHE-DE", "CHE-FR", "CHE-IT", "CHL-ES", "CHN-ZH", "COL-ES", "CRI-ES",
	"CYP-EL", "CZE-CS", "DEU-DE", "DNK-DA", "DOM-ES", "DZA-AR", "ECU-ES", "EGY-AR", "ESP-CA", "ESP-ES", "EST-ET",
	"FIN-FI", "FRA-FR", "GBR-EN", "GRC-EL", "GTM-ES", "HKG-ZH", "HND-ES", "HRV-HR", "HUN-HU", "IDN-IN", "IND-EN",
	"IND-HI", "IRL-EN", "IRL-GA", "IRQ-AR", "ISL-IS", "ISR-IW", "ITA-IT", "JOR-AR", "JPN-JA", "KOR-KO", "KWT-AR",
	"LBN-AR", "LBY-AR", "LTU-LT", "LUX-DE", "LUX-FR", "LVA-LV", "MAR-AR", "MEX-ES", "MKD-MK", "MLT-EN", "MLT-MT",
	"MNE-SR", "MYS-MS", "NIC-ES", "NLD-NL", "NOR-NO", "NZL-EN", "OMN-AR", "PAN-ES", "PER-ES", "PHL-EN", "POL-PL",
	"PRI-ES", "PRT-PT", "PRY-ES", "QAT-AR", "ROU-RO", "RUS-RU", "SAU-AR", "SDN-AR", "SGP-EN", "SGP-ZH", "SLV-ES",
	"SRB-SR", "SVK-SK", "SVN-SL", "SWE-SV", "SYR-AR", "THA-TH", "TUN-AR", "TUR-TR", "TWN-ZH", "UKR-UK", "URY-ES",
	"USA-EN", "USA-ES", "VEN-ES", "VNM-VI", "YEM-AR", "ZAF-EN",
};
#define LOCALES (sizeof(locales) / sizeof(*locales))

/* These names do not depend on the seed, so all data have the same groups. */
static char agent[AGENTS][NAME], word[WORDS][NAME];

/* Return the initial state of the random numbers for one row. */
static uint64_t state_of(const struct bigdata *d, uint64_t what, uint64_t row)
{
	uint64_t s = d->seed;

	s = splitmix64(&s) + what;
	s = splitmix64(&s) + row;
	return splitmix64(&s);
}

/* -- text -------------------------------------------------------------------- */

static char *put_letters(char *out, uint64_t *rng, unsigned int n)
{
	uint64_t left = 0;

	/* A random number below 2^64 is sufficient for 13 letters. */
	for (unsigned int i = 0; i < n; i++) {
		if (i % 13 == 0)
			left = splitmix64(rng);
		unsigned __int128 product = (unsigned __int128)left * 26;

		*out++ = (char)('a' + (unsigned int)(product >> 64));
		left = (uint64_t)product;
	}
	return out;
}

static char *put_text(char *out, const char *text, char behind)
{
	out = stpcpy(out, text);
	*out++ = behind;
	return out;
}

static char *put_number(char *out, uint64_t n, char behind)
{
	char digits[20];
	int i = 20;

	do
		digits[--i] = (char)('0' + n % 10);
	while (n /= 10);
	memcpy(out, digits + i, 20 - (size_t)i);
	out += 20 - i;
	*out++ = behind;
	return out;
}

/*
 * Write a date before 2100, given as days since 1970-01-01. In these years every year that is divisible by 4 is a leap
 * year.
 */
static char *put_date(char *out, unsigned int day)
{
	static const unsigned char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	unsigned int year = 1970, month = 0, of;

	while (day >= (of = 365 + (year % 4 == 0)))
		day -= of, year++;
	while (day >= (of = days[month] + (month == 1 && year % 4 == 0)))
		day -= of, month++;
	out = put_number(out, year, '-');
	*out++ = (char)('0' + (month + 1) / 10);
	out = put_number(out, (month + 1) % 10, '-');
	*out++ = (char)('0' + (day + 1) / 10);
	return put_number(out, (day + 1) % 10, ',');
}

static char *put_url(char *out, const struct bigdata *d, uint64_t page)
{
	uint64_t rng = state_of(d, URLS, page);
	unsigned int n = 10 + (unsigned int)random_below(&rng, 91);

	out = put_letters(out, &rng, n);
	*out++ = ',';
	return out;
}

static void name_agents(void)
{
	uint64_t rng = 11;
	unsigned int n = 0;

	for (unsigned int i = 0; n < AGENTS; i++) {
		unsigned int copies = i < KNOWN ? known_agents[i] : 1;
		char *end = put_letters(agent[n], &rng, 5 + (unsigned int)random_below(&rng, 20));

		agent[n][0] = (char)(agent[n][0] - 'a' + 'A');
		*end++ = '/';
		*end++ = (char)('0' + random_below(&rng, 9));
		*end++ = '.';
		*end++ = (char)('0' + random_below(&rng, 9));
		*end = 0;
		for (n++; --copies; n++)
			memcpy(agent[n], agent[n - 1], NAME);
	}
}

static void name_words(void)
{
	uint64_t rng = 12;

	for (unsigned int i = 0; i < WORDS; i++)
		*put_letters(word[i], &rng, 3 + (unsigned int)random_below(&rng, 15)) = 0;
}

/* -- tables ------------------------------------------------------------------- */

/*
 * Draw the number of links on a page. Pages of HiBench have 800 +- 80 words, and one in twenty of the words is a link.
 * The sum of 12 uniform numbers, minus 6, is used as a normal number.
 */
static unsigned int links_of(uint64_t *rng)
{
	int64_t normal = 0;

	for (int i = 0; i < 12; i++)
		normal += (int64_t)(splitmix64(rng) >> 32);
	normal -= 6ll << 32;
	return (unsigned int)(800 + (80 * normal >> 32)) / 20;
}

/* Draw a page x of n to link to, with a probability proportional to x^-0.5. For a uniform u in [0, 1), x is n u^2. */
static uint64_t link_of(uint64_t *rng, uint64_t n)
{
	uint64_t u = splitmix64(rng), square = (uint64_t)((unsigned __int128)u * u >> 64);

	return (uint64_t)((unsigned __int128)square * n >> 64);
}

int bigdata_open(struct bigdata *d)
{
	d->references = calloc(d->pages, sizeof(*d->references));
	if (!d->references)
		return -ENOMEM;
	for (uint64_t page = 0; page < d->pages; page++) {
		uint64_t rng = state_of(d, LINKS, page);

		for (unsigned int n = links_of(&rng); n; n--)
			d->references[link_of(&rng, d->pages)]++;
	}
	name_agents();
	name_words();
	return 0;
}

void bigdata_close(struct bigdata *d)
{
	free(d->references);
	d->references = NULL;
}

static uint64_t pages(const struct bigdata *d)
{
	return d->pages;
}

static unsigned int ranking(const struct bigdata *d, uint64_t row, char out[BIGDATA_ROW])
{
	uint64_t rng = state_of(d, PAGES, row);
	char *at = put_url(out, d, row);

	at = put_number(at, d->references[row], ',');
	at = put_number(at, 1 + random_below(&rng, 99), '\n');
	return (unsigned int)(at - out);
}

static uint64_t visits(const struct bigdata *d)
{
	return d->visits;
}

static unsigned int visit(const struct bigdata *d, uint64_t row, char out[BIGDATA_ROW])
{
	uint64_t rng = state_of(d, VISITS, row);
	const char *locale;
	char *at = out;

	at = put_number(at, 1 + random_below(&rng, 254), '.');
	at = put_number(at, random_below(&rng, 255), '.');
	at = put_number(at, random_below(&rng, 255), '.');
	at = put_number(at, 1 + random_below(&rng, 254), ',');
	at = put_url(at, d, random_below(&rng, d->pages));
	at = put_date(at, (unsigned int)random_below(&rng, DAYS));
	/* Nine digits are sufficient to identify an FP32 value. */
	at += sprintf(at, "%.9g,", (double)(splitmix64(&rng) >> 40) / (1 << 24));
	at = put_text(at, agent[random_below(&rng, AGENTS)], ',');
	locale = locales[random_below(&rng, LOCALES)];
	memcpy(at, locale, 3);
	at[3] = ',';
	at = put_text(at + 4, locale, ',');
	at = put_text(at, word[random_below(&rng, WORDS)], ',');
	at = put_number(at, 1 + random_below(&rng, 10), '\n');
	return (unsigned int)(at - out);
}

const struct bigdata_table bigdata_tables[BIGDATA_TABLES] = {
	{"rankings",
	 "pageURL text not null\n"
	 "pageRank int32 not null\n"
	 "avgDuration int32 not null\n",
	 "pageURL,pageRank,avgDuration\n", pages, ranking},
	{"uservisits",
	 "sourceIP text not null\n"
	 "destURL text not null\n"
	 "visitDate date not null\n"
	 "adRevenue real not null\n"
	 "userAgent text not null\n"
	 "countryCode text not null\n"
	 "languageCode text not null\n"
	 "searchWord text not null\n"
	 "duration int32 not null\n",
	 "sourceIP,destURL,visitDate,adRevenue,userAgent,countryCode,languageCode,searchWord,duration\n", visits, visit},
};
