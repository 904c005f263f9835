// Line drawings for the navigation and for buttons.  All decorate a text, so screen readers skip them.

const PATHS: Record<string, string> = {
  overview: "M3 12h4l3-8 4 16 3-8h4",
  queues: "M4 6h16M4 12h16M4 18h10",
  jobs: "M5 4h14v16H5ZM9 9h6M9 13h6",
  dead: "M12 3 2.5 20h19ZM12 10v4M12 17v.5",
  workers: "M6 6h12v12H6ZM9 2v4M15 2v4M9 18v4M15 18v4M2 9h4M2 15h4M18 9h4M18 15h4",
  schedules: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM12 7v5l3 2",
  workflows: "M3 4h6v5H3ZM15 4h6v5h-6ZM9 15h6v5H9ZM6 9v3h12V9M12 12v3",
  limits: "M4 17a8.5 8.5 0 1 1 16 0M12 15l4-5",
  health: "M12 20S3 14.5 3 8.8A4.6 4.6 0 0 1 12 7a4.6 4.6 0 0 1 9 1.8C21 14.5 12 20 12 20Z",
  audit: "M6 3h9l4 4v14H6ZM10 11h5M10 15h5",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6 6 18",
  pause: "M8 5v14M16 5v14",
  play: "M7 4v16l13-8Z",
  search: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13ZM15.5 15.5 21 21",
  copy: "M9 9h11v11H9ZM5 15H4V4h11v1",
  more: "M9 5l7 7-7 7",
  user: "M12 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8ZM4 21c0-4 3.6-6 8-6s8 2 8 6",
  help: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM9.5 9.5a2.5 2.5 0 1 1 3.5 2.3c-.7.3-1 .8-1 1.7M12 17v.3",
  back: "M15 5l-7 7 7 7",
};

export function Icon({ name }: { name: string }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" width="18" height="18" aria-hidden="true">
      <path d={PATHS[name] ?? ""} />
    </svg>
  );
}

// The address in the head of the page holds the digest of the file: the browser does not ask for it twice.
const BRAND = document.querySelector<HTMLLinkElement>("link[rel=icon]")!.href;

export function Brand({ size }: { size: number }) {
  return <img src={BRAND} width={size} height={size} alt="" />;
}
