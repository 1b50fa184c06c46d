#ifndef FERRY_SILENT_READS_H
#define FERRY_SILENT_READS_H

// Nothing to call: that this is linked is what counts. See silent-reads.c.

#endif
