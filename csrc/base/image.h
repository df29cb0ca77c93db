/* base/image.h -- the extension's own pages.  Called once, at import. */
#ifndef FR_BASE_IMAGE_H
#define FR_BASE_IMAGE_H

/* Maps the code and the variables of this shared object. Else their first use would be a page fault for each, 1 to 3 us:
 * more than NumPy, which has been in use, takes for a small operation. All together take half a millisecond. Where the system
 * cannot do that, nothing happens. */
void fr_image_touch(void);

#endif
