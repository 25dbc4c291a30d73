/* The one program of an image without a shell: tells its arguments, or sleeps when told to. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **arguments) {
  if (count == 3 && strcmp(arguments[1], "sleep") == 0) {
    sleep((unsigned)atoi(arguments[2]));
    return 0;
  }
  printf("no shell here:");
  for (int at = 1; at < count; at++) printf(" %s", arguments[at]);
  printf("\n");
  return 0;
}
