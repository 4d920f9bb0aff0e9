import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";

/** Whether an element is, or was once, near what can be seen: what is not need not be loaded. */
export function useInSight(element: RefObject<Element | null>): boolean {
  const [inSight, setInSight] = useState(false);
  useEffect(() => {
    if (!element.current) return;
    const observer = new IntersectionObserver(
      (entries) => setInSight(entries[entries.length - 1]?.isIntersecting ?? true),
      { rootMargin: "240px 0px" },
    );
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return inSight;
}
