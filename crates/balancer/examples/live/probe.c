/* Asks libmemcached where keys go: one question a line on the standard input, one number a line as
 * the answer.
 *
 *   pool DISTRIBUTION HASH    a pool without servers; HASH is the number of a memcached_hash_t
 *   server HOST PORT WEIGHT   one more server in it
 *   key HEX                   answers with the server of the key, in the order of addition
 *   hash HASH HEX             answers with the value of the key under that hash
 *
 * The first line of the answers is the version of the library.
 *
 * Nothing is connected to anything. */
#include <libmemcached/memcached.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(memcached_return_t result, const char *what) {
    if (result != MEMCACHED_SUCCESS) {
        fprintf(stderr, "%s: %s\n", what, memcached_strerror(NULL, result));
        exit(1);
    }
}

static memcached_server_distribution_t distribution(const char *name) {
    if (strcmp(name, "consistent") == 0) return MEMCACHED_DISTRIBUTION_CONSISTENT;
    if (strcmp(name, "ketama") == 0) return MEMCACHED_DISTRIBUTION_CONSISTENT_KETAMA;
    if (strcmp(name, "spy") == 0) return MEMCACHED_DISTRIBUTION_CONSISTENT_KETAMA_SPY;
    if (strcmp(name, "weighted") == 0) return MEMCACHED_DISTRIBUTION_CONSISTENT_WEIGHTED;
    fprintf(stderr, "distribution %s\n", name);
    exit(1);
}

static size_t from_hex(const char *hex, char *key) {
    size_t length = 0;
    unsigned int byte;
    while (sscanf(hex + 2 * length, "%2x", &byte) == 1) {
        key[length++] = (char)byte;
    }
    return length;
}

int main(void) {
    static char line[2048], name[1024], hex[1024], key[512];
    unsigned int hash, port, weight;
    memcached_st *pool = NULL;
    printf("%s\n", memcached_lib_version());
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "pool %1023s %u", name, &hash) == 2) {
            memcached_free(pool);
            pool = memcached_create(NULL);
            check(memcached_behavior_set(pool, MEMCACHED_BEHAVIOR_HASH, hash), "hash");
            check(memcached_behavior_set(pool, MEMCACHED_BEHAVIOR_DISTRIBUTION,
                                         distribution(name)), "distribution");
        } else if (sscanf(line, "server %1023s %u %u", name, &port, &weight) == 3) {
            check(memcached_server_add_with_weight(pool, name, (in_port_t)port, weight), name);
        } else if (sscanf(line, "key %1023s", hex) == 1) {
            printf("%u\n", memcached_generate_hash(pool, key, from_hex(hex, key)));
        } else if (sscanf(line, "hash %u %1023s", &hash, hex) == 2) {
            size_t length = from_hex(hex, key);
            printf("%u\n", memcached_generate_hash_value(key, length, (memcached_hash_t)hash));
        } else {
            fprintf(stderr, "not understood: %s", line);
            return 1;
        }
    }
    memcached_free(pool);
    return 0;
}
