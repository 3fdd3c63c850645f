/*
 * Whether a page of a process is RAM: by the processor's own page tables. Plain C over a struct work, as
 * capture.h.
 *
 * A process that the collector does not know yet may have mapped a device, where reading does
 * something. Page tables say where a page lies, and the kernel's list of RAM whether that is a device.
 * Intel 64 manual, volume 3, chapter on paging.
 */
#ifndef VCPI_TABLES_H
#define VCPI_TABLES_H

#include "capture.h"

#define ENTRY_PRESENT 1ULL
#define ENTRY_IS_PAGE 0x80ULL
#define ENTRY_ADDRESS 0x000ffffffffff000ULL

/* Whether the page of an address is there, and RAM. `work->tables` is the address of the uppermost
 * table, and what may be read of the kernel's memory is in work->allowed. */
static INLINE int is_ram(struct work *work, u64 address)
{
	u64 table, entry, inside;
	u32 level, shift;

	if (!work->direct_map)
		return 0;
	table = work->tables;
	shift = 12 + 9 * work->levels;
	for (level = 0; level < 5; level++) {
		shift -= 9;
		table += (address >> (shift & 63) & 511) * 8;
		if (!is_allowed(work, table, 8) || read_kernel(&entry, sizeof(entry), table))
			return 0;
		if (!(entry & ENTRY_PRESENT))
			return 0;
		if (shift <= 12 || (shift <= 30 && entry & ENTRY_IS_PAGE))
			break;
		table = work->direct_map + (entry & ENTRY_ADDRESS);
	}
	/* Of large pages some bits of the address mean something else. */
	inside = (1ULL << (shift & 63)) - 1;
	entry = (entry & ENTRY_ADDRESS & ~inside) | (address & inside);
	return is_allowed(work, work->direct_map + entry, 64);
}

/* The same, of pages that were asked about lately in this sample without a second look. */
static INLINE int may_read_page(struct work *work, u64 address)
{
	u64 page = address >> 12;
	struct page *held = &work->way.pages[page & (PAGES - 1)];

	if (held->page == page && held->serial == work->way.serial)
		return held->is_ram;
	held->page = page;
	held->serial = work->way.serial;
	held->is_ram = is_ram(work, address);
	return held->is_ram;
}

#endif
